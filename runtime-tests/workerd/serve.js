/** Serves a Workers module, `export default { fetch(request, env) }`, in workerd. */
import { bundle } from "./bundle.js";

/** @typedef {Readonly<Record<string, unknown>>} Env the `env` argument of the module */

/**
 * Serves over real HTTP on a free port.
 * @param {string} entry
 * @param {Env} [env]
 * @returns {Promise<{ url: string; close(): Promise<void> }>}
 */
export async function serveInWorkerd(entry, env = {}) {
  const miniflare = await createMiniflare({
    modules: true,
    script: await bundle(entry, "esm"),
    // Without this flag, `request.signal` does not abort when the client disconnects.
    compatibilityFlags: ["enable_request_signal"],
    bindings: env,
  });
  return { url: String(await miniflare.ready), close: () => miniflare.dispose() };
}

/**
 * Creates a Miniflare, which runs workerd, on a free port and without network requests.
 * @param {object} options
 */
export async function createMiniflare(options) {
  process.env.CLOUDFLARE_CF_FETCH_ENABLED = "false";
  const { Miniflare } = await import("miniflare");
  return new Miniflare({ compatibilityDate: "2026-07-01", host: "127.0.0.1", port: 0, cf: false, ...options });
}
