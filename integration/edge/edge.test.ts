/** The suite in workerd and in the Vercel edge runtime, where nothing of Node is there, driven over real HTTP. */
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { type MiddlewareSubject, middlewareSuite } from "sluice/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { serveInEdgeRuntime } from "../../runtime-tests/serve.js";
import { serveInWorkerd } from "../../runtime-tests/workerd/serve.js";
import { FETCH_WITHOUT } from "../../test/middleware/mount.ts";
import { startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";
import { startUpstashBridge } from "../../test/servers/upstash-bridge.js";

const at = (script: string) => fileURLToPath(new URL(script, import.meta.url));

const LEAVING = "stops delaying a request when its client disconnects";
const ABANDONING = "does not refund a failed request whose client disconnected early (issue 13)";

const runtimes = {
  workerd: {
    serve: serveInWorkerd,
    // miniflare takes the place of Cloudflare's edge: it sets this header, but leaves one that is there.
    as: (address: string) => ({ "CF-Connecting-IP": address }),
    without: {
      [LEAVING]: "workerd takes a connection that is closed for half closed; one that is reset is tried below",
      [ABANDONING]: "workerd takes a connection that is closed for half closed",
    },
  },
  "edge-runtime": {
    serve: serveInEdgeRuntime,
    as: (address: string) => ({ "X-Vercel-Forwarded-For": address }),
    without: {
      [LEAVING]: "edge-runtime's server gives its requests no signal",
      [ABANDONING]: "edge-runtime's server gives its requests no signal",
    },
  },
};
const scripts = { fetch: FETCH_WITHOUT, hono: {} };

for (const [runtime, { serve, as, without }] of Object.entries(runtimes)) {
  for (const [script, cases] of Object.entries(scripts)) {
    const entry = at(`${script}-script.ts`);
    const suite = (store: string, start: MiddlewareSubject["start"]) =>
      middlewareSuite(
        `${script} on ${runtime}, ${store}`,
        { start, as, without: { ...cases, ...without } },
        { describe, it },
      );
    suite("memory", () => serve(entry));
    suite("Upstash", async () => {
      const redis = await startRedis();
      const { url, token, stop } = await startUpstashBridge(redis.port);
      const server = await serve(entry, { url, token });
      return {
        url: server.url,
        async close() {
          await server.close();
          await stop();
          await redis.stop();
        },
      };
    });
  }

  describe(`${runtime}, without an identity`, () => {
    it("is refused when it is made, and told what to name", async () => {
      const { url, close } = await serve(at("refusal-script.ts"));
      onTestFinished(close);
      const said = await (await fetch(url)).json();
      expect(said).toHaveLength(2);
      for (const { code, message } of said) {
        expect(code).toBe("invalid-option");
        for (const preset of ["cloudflare", "vercel", "netlify", "fly", "fastly", "aws", "nginx"]) {
          expect(message).toContain(preset);
        }
      }
    });
  });
}

describe.each(Object.keys(scripts))("%s on workerd, a connection that is reset", (script) => {
  it("is held no longer", async () => {
    const { url, close } = await serveInWorkerd(at(`${script}-script.ts`));
    onTestFinished(close);
    const ask = async (path: string) => (await fetch(new URL(path, url))).status;
    const seen = async () => (await (await fetch(new URL("/seen", url))).json()).leaving;
    expect(await ask("/leaving")).toBe(200);
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write("GET /leaving HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await until("the second request", async () => ((await seen()).decisions.length === 2 ? undefined : "not there"));
    socket.resetAndDestroy();
    // The third is held for longer than the second would have been.
    expect(await ask("/leaving")).toBe(200);
    expect(await seen()).toMatchObject({ handled: 2, decisions: { length: 3 } });
  });
});
