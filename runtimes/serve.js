/** Serves a module as Workers have it, `export default { fetch(request, env) }`, in runtimes that have no Node. */
import { createServer } from "node:http";
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

/**
 * In the Vercel edge runtime, over real HTTP on a free port. It has no names of Node but the `env` of `process`, as
 * scripts on Vercel's machines have it.
 * @param {string} entry
 * @param {Env} [env]
 * @returns {Promise<{ url: string; close(): Promise<void> }>}
 */
export async function serveInEdgeRuntime(entry, env = {}) {
  const { createHandler, EdgeRuntime } = await import("edge-runtime");
  const runtime = new EdgeRuntime({
    extend: (context) => Object.assign(context, { process: { env: { VERCEL: "1" } }, env }),
    initialCode: `${await bundled(entry, "iife")}
      addEventListener("fetch", (event) => event.respondWith(kit.default.fetch(event.request, env)));`,
  });
  const { handler } = createHandler({ runtime });
  const server = createServer((request, response) => {
    // What Vercel's proxies do, as miniflare does for Cloudflare's; a header that a test sent stays.
    request.headers["x-vercel-forwarded-for"] ??= request.socket.remoteAddress;
    handler(request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}
