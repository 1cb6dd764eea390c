/** Serves a module as Workers have it, `export default { fetch(request, env) }`, in workerd. */
import { bundled } from "./bundle.js";

/** @typedef {Readonly<Record<string, unknown>>} Env what the module is given as `env` */

/**
 * In workerd, over real HTTP on a free port.
 * @param {string} entry
 * @param {Env} [env]
 * @returns {Promise<{ url: string; close(): Promise<void> }>}
 */
export async function serveInWorkerd(entry, env = {}) {
  const miniflare = await miniflareOf({
    modules: true,
    script: await bundled(entry, "esm"),
    // Without it a Worker does not learn that its client has left.
    compatibilityFlags: ["enable_request_signal"],
    bindings: env,
  });
  return { url: String(await miniflare.ready), close: () => miniflare.dispose() };
}

/**
 * Miniflare, which runs workerd, on a free port and without looking for anything on the network.
 * @param {object} options
 */
export async function miniflareOf(options) {
  process.env.CLOUDFLARE_CF_FETCH_ENABLED = "false";
  const { Miniflare } = await import("miniflare");
  return new Miniflare({ compatibilityDate: "2026-07-01", host: "127.0.0.1", port: 0, cf: false, ...options });
}
