/** Serves a module as Workers have it, `export default { fetch(request, env) }`, in the Vercel edge runtime. */
import { createServer } from "node:http";
import { bundled } from "./workerd/bundle.js";

/** @typedef {Readonly<Record<string, unknown>>} Env what the module is given as `env` */

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
