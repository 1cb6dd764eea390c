/** `sluice/node` on `node:http`. */
import type { RequestListener } from "node:http";
import { rateLimit } from "sluice/node";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen, nodeKit, nodeListener } from "../../test/middleware/mount.ts";
import { sendRequest } from "../send-request.ts";
import { serverSuite } from "../server-suite.ts";
import { responses } from "./responses.ts";

serverSuite("node:http", { kit: nodeKit, start: (routes) => listen(nodeListener(routes)) });

describe("RateLimit fields over HTTP/1.1", () => {
  it.each(responses)("are sent by a handler that responds with %s", async (_, handler) => {
    const { url, close } = await listen(rateLimit({ policy: "2/d" })(handler) as RequestListener);
    onTestFinished(close);
    for (const left of [1, 0]) {
      const { status, body, header } = await sendRequest(url, "/");
      expect(header("RateLimit")).toMatch(new RegExp(`;r=${left};`));
      expect(header("RateLimit-Policy")).toMatch(/;q=2;w=86400$/);
      expect(body).toBe(status === 204 ? "" : "ok");
    }
    expect((await sendRequest(url, "/")).status).toBe(429);
  });
});
