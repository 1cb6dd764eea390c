/**
 * Runs the 21 usage blocks of the ws-kit proposal ("Built-In Rate Limiting") in code of our own with the same names, options
 * and calls: as written, with four names that a reader adds, or replaced. The suite `types` compiles them.
 */
import { readFileSync } from "node:fs";
import { createRouter, message, withZod, z } from "@ws-kit/zod";
import { createClient } from "redis";
import { memoryRateLimiter, type RateLimiter } from "sluice";
import { type DurableObjectNamespaceLike, durableObjectRateLimiter } from "sluice/cloudflare";
import { redisRateLimiter } from "sluice/redis";
import { fakeClock } from "sluice/testing";
import type { LimitExceeded } from "sluice/ws";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startWorkerd, type Workerd } from "../../test/cloudflare/workerd.ts";
import { read } from "../../test/snippets.ts";
import * as asWritten from "./proposal/as-written.ts";
import * as otherForms from "./proposal/other-forms.ts";
import * as replacements from "./proposal/replacements.ts";
import * as withNames from "./proposal/with-names.ts";
import { type Client, connectTo } from "./ws-kit-clients.ts";
import { errorOf, server } from "./ws-kit-set-up.ts";

let workerd: Workerd;
let objects: DurableObjectNamespaceLike;
beforeAll(async () => {
  process.env.REDIS_URL = server.url;
  workerd = await startWorkerd(new URL("apps/objects-worker.js", import.meta.url), {
    durableObjects: { RATE_LIMITER: { className: "RateLimiterDO", useSQLite: true } },
  });
  objects = (await workerd.bindings()).RATE_LIMITER as DurableObjectNamespaceLike;
});
afterAll(async () => {
  delete process.env.REDIS_URL;
  await workerd?.stop();
});

type Data = Record<string, unknown>;
type Plain = ReturnType<typeof createRouter>;
type Connect = (data?: Data) => Client;

/** Registers a block's middleware on a router whose handlers reply, and disconnects the block's Redis client in the end. */
async function routed(block: (router: Plain) => unknown): Promise<Connect> {
  const plain = createRouter();
  const client = (await block(plain)) as { destroy?(): void } | undefined;
  if (client?.destroy) onTestFinished(() => client.destroy?.());
  const router = plain.plugin(withZod());
  for (const type of ["SAY", "Compute"]) {
    router.on(message(type, { text: z.string() }), ({ ws }) => ws.send(JSON.stringify({ type: "SAID", meta: {} })));
  }
  return (data) => connectTo(router, data);
}

/** Sends messages until one is rejected, and returns how many were not. */
async function handled(client: Client, type = "SAY"): Promise<number> {
  for (let count = 0; ; count++) {
    const reply = await client.request(type);
    if (reply.type === "SAID") continue;
    expect(errorOf(reply)).toMatchObject({ code: "RESOURCE_EXHAUSTED", retryable: true });
    return count;
  }
}

let users = 0;
/** Data of a user that no other test has. */
const someone = (more: Data = {}): Data => ({ userId: `user ${++users}`, ...more });

/** Expects that each user has `count` messages of a type, on two connections together. */
async function expectPerUser(connect: Connect, count: number, type?: string): Promise<void> {
  for (const user of [someone(), someone()]) {
    expect(await handled(connect(user), type)).toBe(count);
    expect(await handled(connect(user), type)).toBe(0);
  }
}

describe("blocks that work as written", () => {
  it("are 13 of 21, without a cast or a suppressed error", () => {
    expect(Object.keys(asWritten)).toHaveLength(13);
    const code = readFileSync(new URL("proposal/as-written.ts", import.meta.url), "utf8").replace(
      /\/\*\*.*?\*\//gs,
      "",
    );
    // process.env has no declared members.
    expect(code.replaceAll("process.env.REDIS_URL as string", "")).not.toMatch(/@ts-| as |\bany\b/);
  });

  it.each<[string, (router: Plain) => unknown, count: number]>([
    ["1: quick start", asWritten.quickStart, 3],
    ["3: two limiters on one Redis connection", asWritten.limitersOnOneConnection, 2],
    ["4: one policy", asWritten.onePolicy, 4],
    ["6: several processes", asWritten.processesShareRedis, 5],
    ["7: Durable Objects", (router) => asWritten.durableObjects(router, { RATE_LIMITER: objects }), 6],
  ])("%s", async (_, block, count) => expectPerUser(await routed(block), count));

  it("5: two policies in memory", async () => {
    const connect = await routed(asWritten.policiesInMemory);
    await expectPerUser(connect, 10);
    await expectPerUser(connect, 2, "Compute");
  });

  it("8: a clock in tests", async () => {
    // 15 steps of 100 ms add 1.5 tokens to 10. The proposal expects 10 grants, its own algorithm gives 11 too.
    expect((await asWritten.clockInTests()).filter(Boolean)).toHaveLength(11);
  });

  it("9: a key of tenant and user", async () => {
    const connect = await routed(asWritten.keyOfTenantAndUser);
    await expectPerUser(connect, 3);
    for (const tenantId of ["a", "b"]) expect(await handled(connect({ userId: "ann", tenantId }))).toBe(3);
  });

  it("10: costs by type and tier", async () => {
    const connect = await routed(asWritten.costs);
    expect(await handled(connect(someone()))).toBe(6);
    expect(await handled(connect(someone({ tier: "pro" })))).toBe(12);
    expect(await handled(connect(someone()), "Compute")).toBe(3);
  });

  it("14: keys per user, and their expiry in Redis", async () => {
    const connect = await routed(asWritten.expiryInRedis);
    const client = createClient({ url: server.url });
    await client.connect();
    onTestFinished(() => client.destroy());
    const before = new Set(await client.keys("*"));
    expect((await connect(someone()).request()).type).toBe("SAID");
    const added = (await client.keys("*")).filter((key) => !before.has(key));
    const lifetimes = await Promise.all(added.map((key) => client.pTTL(key)));
    expect(lifetimes.map((ms) => (ms > 60_000 ? "two minutes" : "until it is full")).sort()).toEqual([
      "two minutes",
      "until it is full",
    ]);
  });

  it("15: a cost above the capacity", async () => {
    expect(await asWritten.costAboveCapacity()).toMatchObject({ allowed: false, remaining: 10, retryAfterMs: null });
  });

  // 16: contract tests.
  const testPolicy = { capacity: 10, tokensPerSecond: 1 };
  let policies = 0;
  const fresh = () => ({ ...testPolicy, prefix: `contract ${++policies}` });
  asWritten.describeRateLimiter("Memory", () => memoryRateLimiter(testPolicy));
  asWritten.describeRateLimiter("Redis", async (): Promise<RateLimiter> => {
    const client = createClient({ url: server.url });
    onTestFinished(() => client.destroy());
    await client.connect();
    return redisRateLimiter(client, fresh());
  });
  asWritten.describeRateLimiter("Durable Objects", () => durableObjectRateLimiter(objects, fresh()));

  it("17: several policies", async () => {
    const client = await asWritten.severalPolicies();
    client.destroy();
  });
});

describe("blocks that work as written with the four names of the page", () => {
  it("are 3, which makes 16 of 21", () => {
    expect(Object.keys(withNames)).toHaveLength(3);
    const [, ...lines] = readFileSync(new URL("proposal/names.ts", import.meta.url), "utf8")
      .trim()
      .split("\n");
    expect(read("docs/websockets/ws-kit.md")).toContain(lines.join("\n"));
  });

  it.each<[string, (router: Plain) => unknown, count: number]>([
    ["18: after a migration", withNames.afterMigration, 3],
    ["19: a store of one policy", withNames.storeOfOnePolicy, 3],
    ["20: policies of a backend", withNames.policiesOfBackend, 2],
  ])("%s", async (_, block, count) => expectPerUser(await routed(block), count));
});

describe("forms that do not work", () => {
  const advice = '"store" is not an option of rateLimit. Pass a limiter that uses the store instead';
  it.each([
    ["2: a store with a clock", otherForms.clockOfStore, advice],
    [
      "12, 18, 19: a store of a policy",
      otherForms.storeOfPolicy,
      "memoryStore() takes no policy. Use createLimiter({ policy, store: memoryStore() }) or memoryRateLimiter(policy).",
    ],
  ])("%s: an error names the replacement", (_, form, error) => expect(form).toThrow(error));

  it("11, 12, 18, 20: createRedisBackend and defaultKey do not exist", () => {
    expect(otherForms.missing).toEqual({ createRedisBackend: undefined, defaultKey: undefined });
  });
});

describe("replacements of the other blocks", () => {
  it("are 8: five, and three that need none of the four names", () => {
    expect(Object.keys(replacements)).toHaveLength(8);
  });

  it("2: the clock of a limiter", async () => {
    const clock = fakeClock();
    const connect = await routed((router) => replacements.clockOfLimiter(router, clock));
    const user = someone();
    expect(await handled(connect(user))).toBe(3);
    clock.advance(2000);
    expect(await handled(connect(user))).toBe(2);
  });

  it("11: limiters of tiers", async () => {
    const connect = await routed(replacements.limitersOfTiers);
    expect(await handled(connect(someone()))).toBe(2);
    expect(await handled(connect(someone({ isPremium: true })))).toBe(4);
  });

  it("12: hooks of the middleware and of a guard", async () => {
    const lines: string[] = [];
    let guard: ReturnType<typeof replacements.hooks> | undefined;
    const connect = await routed((router) => void (guard = replacements.hooks(router, (line) => lines.push(line))));
    expect(await handled(connect(someone()))).toBe(3);
    guard?.attach({ id: "c1", send() {}, close() {} }).receive("x".repeat(101), () => {});
    expect(lines).toEqual([expect.stringMatching(/^rate \S+ 1 of 3 \d+$/), "payload 101 of 100"]);
  });

  it("13: the address in the connection's data", async () => {
    let authenticate: ReturnType<typeof replacements.keyOfAddress> | undefined;
    const connect = await routed((router) => void (authenticate = replacements.keyOfAddress(router as never)));
    const upgrade = (address: string) =>
      authenticate?.(new Request("http://localhost", { headers: { "CF-Connecting-IP": address } }));
    expect(await handled(connect(upgrade("192.0.2.1")))).toBe(3);
    expect(await handled(connect(upgrade("192.0.2.1")))).toBe(0);
    expect(await handled(connect(upgrade("192.0.2.2")))).toBe(3);
  });

  it.each<[string, (router: Plain) => unknown, count: number]>([
    ["18: a limiter of one policy", (router) => void router.use(replacements.limiterOfOnePolicy()), 3],
    ["19: with a key", (router) => void router.use(replacements.limiterWithKey()), 3],
    ["20: limiters of one client", replacements.limitersOfClient, 2],
  ])("%s", async (_, block, count) => expectPerUser(await routed(block), count));

  it("21: the hook of the middleware", async () => {
    const infos: LimitExceeded[] = [];
    const connect = await routed((router) => replacements.hookOfMiddleware(router, (info) => void infos.push(info)));
    expect(await handled(connect(someone()))).toBe(3);
    const { id, retryAfterMs, ...info } = infos[0] as LimitExceeded;
    expect(info).toMatchObject({ type: "rate", observed: 1, limit: 3 });
    expect([typeof id, typeof retryAfterMs]).toEqual(["string", "number"]);
  });
});
