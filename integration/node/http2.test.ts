/** `sluice/node` on the compatibility API of `node:http2`. */
import type { ClientHttp2Session, IncomingHttpHeaders } from "node:http2";
import { rateLimit } from "sluice/node";
import { describe, expect, it, onTestFinished } from "vitest";
import { nodeKit, nodeListener } from "../../test/middleware/mount.ts";
import { serverSuite } from "../server-suite.ts";
import { behindHttp1, listenHttp2 } from "./http2.ts";
import { responses } from "./responses.ts";

serverSuite("node:http2, compatibility API", {
  kit: nodeKit,
  start: async (routes) => behindHttp1(await listenHttp2(nodeListener(routes))),
});

function headOf(session: ClientHttp2Session, path: string): Promise<IncomingHttpHeaders> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":path": path });
    stream.once("response", resolve).once("error", reject).resume();
  });
}

describe("RateLimit fields over HTTP/2", () => {
  it.each(responses)("are sent by a handler that responds with %s", async (_, handler) => {
    const { session, close } = await listenHttp2(rateLimit({ policy: "2/d" })(handler));
    onTestFinished(close);
    for (const left of [1, 0]) {
      const head = await headOf(session, "/");
      expect(head.ratelimit).toMatch(new RegExp(`;r=${left};`));
      expect(head["ratelimit-policy"]).toMatch(/;q=2;w=86400$/);
    }
    const denied = await headOf(session, "/");
    expect(denied).toMatchObject({ ":status": 429, "content-type": "application/problem+json" });
    expect(denied["retry-after"]).toMatch(/^\d+$/);
  });
});
