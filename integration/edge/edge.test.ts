/** The suite in workerd and in the Vercel edge runtime, without Node APIs, over real HTTP. */
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

const DISCONNECTING = "stops delaying a request when its client disconnects";
const REFUNDING = "does not refund a failed request whose client disconnected early (issue 13)";
const CONCURRENT = "limits concurrent requests, and releases one when its response ends";
const LEAVING = "releases a concurrent request when its client disconnects";
const CAPTURING_LIVE = "sends a captured stream as it is produced";

const IN_PROGRESS = "responds with 409 while the first request with an idempotency key is in progress, or waits for it";
const PIPELINED = "releases the slots of pipelined requests whose client disconnects";
const UNREAD = "releases the slot of a client that disconnects while nobody reads its request";
const UNREAD_STREAM = "releases the slot of such a client also if its response has begun";
const WORKING = "keeps the slot of a client that has disconnected until its handler ends";
const REPORTING_LATE = "charges the cost that a handler reports after its client has disconnected";
const STORING_LATE = "stores the response to a client that has disconnected, for its retry";

const runtimes = {
  workerd: {
    serve: serveInWorkerd,
    // miniflare replaces Cloudflare's edge: it sets this header unless it is present.
    as: (address: string) => ({ "CF-Connecting-IP": address }),
    without: {
      [DISCONNECTING]: "workerd treats a closed connection as half closed; a reset one is tested below",
      [REFUNDING]: "workerd treats a closed connection as half closed",
      [CONCURRENT]: "a request in workerd can't wait for another one",
      [LEAVING]: "workerd treats a closed connection as half closed",
      [CAPTURING_LIVE]: "a request in workerd can't wait for another one",
      [PIPELINED]: "a request in workerd can't wait for another one",
      [UNREAD]: "workerd treats a closed connection as half closed",
      [UNREAD_STREAM]: "workerd treats a closed connection as half closed",
      [WORKING]: "workerd treats a closed connection as half closed",
      [REPORTING_LATE]: "workerd treats a closed connection as half closed",
      [IN_PROGRESS]: "a request in workerd can't wait for another one",
      [STORING_LATE]: "workerd treats a closed connection as half closed",
    },
  },
  "edge-runtime": {
    serve: serveInEdgeRuntime,
    as: (address: string) => ({ "X-Vercel-Forwarded-For": address }),
    without: {
      [DISCONNECTING]: "requests of edge-runtime's server have no signal",
      [REFUNDING]: "requests of edge-runtime's server have no signal",
      [LEAVING]: "requests of edge-runtime's server have no signal",
      [UNREAD]: "requests of edge-runtime's server have no signal",
      [UNREAD_STREAM]: "requests of edge-runtime's server have no signal",
      [WORKING]: "requests of edge-runtime's server have no signal",
      [REPORTING_LATE]: "requests of edge-runtime's server have no signal",
      [STORING_LATE]: "requests of edge-runtime's server have no signal",
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
    it("throws an error that names the presets", async () => {
      const { url, close } = await serve(at("missing-identity-script.ts"));
      onTestFinished(close);
      const errors = await (await fetch(url)).json();
      expect(errors).toHaveLength(2);
      for (const { code, message } of errors) {
        expect(code).toBe("invalid-option");
        for (const preset of ["cloudflare", "vercel", "netlify", "fly", "fastly", "aws", "nginx"]) {
          expect(message).toContain(preset);
        }
      }
    });
  });
}

describe.each(Object.keys(scripts))("%s on workerd, a connection that is reset", (script) => {
  it("is not delayed any longer", async () => {
    const { url, close } = await serveInWorkerd(at(`${script}-script.ts`));
    onTestFinished(close);
    const send = async (path: string) => (await fetch(new URL(path, url))).status;
    const seen = async () => (await (await fetch(new URL("/seen", url))).json()).leaving;
    expect(await send("/leaving")).toBe(200);
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write("GET /leaving HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await until("the second request", async () => ((await seen()).decisions.length === 2 ? undefined : "not there"));
    socket.resetAndDestroy();
    // The third is delayed for longer than the second would have been.
    expect(await send("/leaving")).toBe(200);
    expect(await seen()).toMatchObject({ handled: 2, decisions: { length: 3 } });
  });
});
