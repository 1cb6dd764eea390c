/** All suites on Upstash over REST, and failures of REST clients. */
import { Redis, type RedisConfigNodejs } from "@upstash/redis";
import { SluiceError } from "sluice";
import { upstashRateLimiter, upstashStore } from "sluice/upstash";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startUpstashBridge, type UpstashBridge } from "../../test/servers/upstash-bridge.js";
import { contractSuites } from "./contract-suites.ts";
import { limiterFor, serverTests, uniquePolicy } from "./server-tests.ts";
import { type Servers, topologies } from "./topologies.ts";

let servers: Servers;
let bridge: UpstashBridge;
beforeAll(async () => {
  servers = await topologies["single server"]();
  bridge = await startUpstashBridge(servers.ports[0] as number);
});
afterAll(async () => {
  await bridge?.stop();
  await servers?.stop();
});

const open = (options: Partial<RedisConfigNodejs> = {}) =>
  new Redis({ url: bridge.url, token: bridge.token, retry: { retries: 0 }, ...options });

describe.each([
  ["@upstash/redis", {}],
  ["@upstash/redis, automaticDeserialization: false", { automaticDeserialization: false }],
  ["@upstash/redis, enableAutoPipelining: false", { enableAutoPipelining: false }],
])("%s", (name, options) => {
  const kind = {
    open: () => ({ client: open(options), ready: Promise.resolve(), close() {} }),
    createStore: upstashStore,
    createLimiter: upstashRateLimiter,
  };
  contractSuites(name, kind);
  serverTests(kind, () => servers);

  it("sends the calls of one tick in one request if the client pipelines", async () => {
    const limiter = limiterFor(upstashStore(open(options)), uniquePolicy(2));
    await limiter.consume("loads the script");
    const before = [bridge.requests, bridge.commands] as const;
    await Promise.all(Array.from({ length: 300 }, (_, i) => limiter.consume(`k${i}`)));
    const requests = "enableAutoPipelining" in options ? 3 : 1;
    expect([bridge.requests - before[0], bridge.commands - before[1]]).toEqual([requests, 3]);
  });

  it("does not retry after a lost reply", async () => {
    const limiter = limiterFor(upstashStore(open(options)), uniquePolicy(10));
    await limiter.consume("k");
    const before = [bridge.requests, bridge.commands] as const;
    bridge.dropReplies(1);
    await expect(limiter.consume("k")).rejects.toMatchObject({ code: "store-unavailable" });
    expect([bridge.requests - before[0], bridge.commands - before[1]]).toEqual([1, 1]);
    expect((await limiter.peek("k")).remaining).toBe(8);
  });

  it("does not retry after a gateway error, whatever the key", async () => {
    const limiter = limiterFor(upstashStore(open(options)), uniquePolicy(10));
    for (const key of ["plain", "NOSCRIPT", "READONLY"]) {
      await limiter.consume(key);
      const before = bridge.requests;
      bridge.fail(502);
      await expect(limiter.consume(key)).rejects.toMatchObject({ code: "store-unavailable" });
      bridge.fail(undefined);
      expect(bridge.requests - before, key).toBe(1);
    }
  });

  it("keeps keys that look like base64, JSON or numbers apart", async () => {
    const limiter = limiterFor(upstashStore(open(options)), uniquePolicy(3));
    const keys = ["abcd", "YWJjZA==", "i·", "7", "007", "7.0", "null", "true", '{"a":1}', "[1]", '"7"', "OK", "b2s="];
    for (const key of keys) expect((await limiter.consume(key)).remaining, key).toBe(2);
    for (const key of keys) {
      const { found, remaining, raw, storedKey } = await limiter.inspect(key);
      expect({ found, remaining }, key).toEqual({ found: true, remaining: 2 });
      expect(await servers.callAll("GET", storedKey), key).toEqual([raw]);
    }
  });
});

describe("a client with retries", () => {
  it.each([
    ["the defaults", {}],
    ["retry: false", { retry: false as const }],
    ["retries: 1", { retry: { retries: 1 } }],
    ["no auto-pipelining", { enableAutoPipelining: false }],
  ])("is rejected with %s", (_, options) => {
    const client = new Redis({ url: bridge.url, token: bridge.token, ...options });
    for (const make of [() => upstashStore(client), () => upstashRateLimiter(client, uniquePolicy(1))]) {
      expect(make).toThrow(SluiceError);
      expect(make).toThrow("retry: { retries: 0 }");
    }
  });
});
