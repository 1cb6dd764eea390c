/** Serves a Workers module, `export default { fetch(request, env) }`, in the Vercel edge runtime. */
import { createServer } from "node:http";
import { bundle } from "./workerd/bundle.js";

/** @typedef {Readonly<Record<string, unknown>>} Env the `env` argument of the module */

/**
 * Serves over real HTTP on a free port. Of Node's globals, only `process.env` exists, as on Vercel.
 * @param {string} entry
 * @param {Env} [env]
 * @returns {Promise<{ url: string; close(): Promise<void> }>}
 */
export async function serveInEdgeRuntime(entry, env = {}) {
  const { createHandler, EdgeRuntime } = await import("edge-runtime");
  const runtime = new EdgeRuntime({
    extend: (context) => Object.assign(context, { process: { env: { VERCEL: "1" } }, env }),
    initialCode: `${await bundle(entry, "iife")}
      addEventListener("fetch", (event) => event.respondWith(bundle.default.fetch(event.request, env)));`,
  });
  const { handler } = createHandler({ runtime });
  const server = createServer((request, response) => {
    // Vercel's proxies set this header. A header that a test sent is kept.
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
