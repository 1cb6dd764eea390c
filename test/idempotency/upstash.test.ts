/** The idempotency store in Upstash Redis, over REST: the contract suite, retries, two processes. */
import { Redis, type RedisConfigNodejs } from "@upstash/redis";
import { idempotencySuite } from "sluice/testing";
import { upstashIdempotencyStore } from "sluice/upstash";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { server } from "../redis/own-redis.ts";
import { describeWithRedis, hasRedis, withRedis } from "../servers/needs.ts";
import { startUpstashBridge, type UpstashBridge } from "../servers/upstash-bridge.js";
import { KEYS, startsPerKey } from "./two-processes.ts";

let bridge: UpstashBridge;
beforeAll(async () => {
  if (hasRedis) bridge = await startUpstashBridge(server.port);
});
afterAll(() => bridge?.stop());

const open = (options: Partial<RedisConfigNodejs> = {}) =>
  new Redis({ url: bridge.url, token: bridge.token, retry: { retries: 0 }, ...options });

const runner = { describe: describeWithRedis, it };

idempotencySuite("Upstash", () => upstashIdempotencyStore(open()), runner);
const claim = { scope: "user 7", key: "k", fingerprint: "f", owner: "o1", leaseMs: 30_000, ttlMs: 60_000 };

describe("a client of Upstash that retries", withRedis, () => {
  it("starts once although the first reply is lost", async () => {
    const store = upstashIdempotencyStore(open({ retry: { retries: 2, backoff: () => 1 } }));
    await store.begin({ ...claim, key: "loads the script" });
    bridge.dropReplies(1);
    expect(await store.begin({ ...claim, key: "lost reply" })).toEqual({ state: "started", attempt: 1 });
    bridge.dropReplies(1);
    const response = { status: 200, headers: {}, body: new Uint8Array(3) };
    expect(await store.complete({ ...claim, key: "lost reply" }, "o1", response, 60_000)).toBe(true);
    const begun = await store.begin({ ...claim, key: "lost reply", owner: "o2" });
    expect(begun).toEqual({ state: "completed", same: true });
    expect(await store.read({ ...claim, key: "lost reply" }, claim.fingerprint)).toEqual(response);
  });
});

describe("a failing Upstash", withRedis, () => {
  it("rejects with store-unavailable", async () => {
    const store = upstashIdempotencyStore(open());
    bridge.fail(502);
    await expect(store.begin(claim)).rejects.toMatchObject({ code: "store-unavailable" });
    bridge.fail(undefined);
    expect(await store.begin(claim)).toEqual({ state: "started", attempt: 1 });
  });

  it("rejects what is not a client", () => {
    expect(() => upstashIdempotencyStore({} as never)).toThrow(expect.objectContaining({ option: "redis" }));
    expect(() => upstashIdempotencyStore(open(), { secret: "x" } as never)).toThrow("hmacSecret");
  });
});

describe("two processes on one Upstash database", withRedis, () => {
  it("start each key once", async () => {
    const starts = await startsPerKey(`
      const { Redis } = await import("@upstash/redis");
      const { upstashIdempotencyStore } = await import("sluice/upstash");
      const store = upstashIdempotencyStore(
        new Redis({ url: "${bridge.url}", token: "${bridge.token}", retry: { retries: 0 } }),
      );
    `);
    expect(starts).toEqual(Array(KEYS).fill(1));
  });
});
