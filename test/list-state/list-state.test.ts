/**
 * An algorithm with list state passes the contract suites on every exact store without a change in any of them:
 * memory, Redis and Upstash here, Durable Objects in test/cloudflare/objects-laws.test.ts.
 */

import { readFileSync } from "node:fs";
import { Redis as UpstashRedis } from "@upstash/redis";
import { type Charge, type Group, type Mode, memoryRateLimiter, memoryStore, type Policy, type Store } from "sluice";
import { algorithms, compilePolicy } from "sluice/algorithms";
import { type RedisClient, redisStore } from "sluice/redis";
import { fakeClock, storeSuite } from "sluice/testing";
import { type UpstashClient, upstashStore } from "sluice/upstash";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { joinScript } from "../../scripts/make-redis-script.js";
import { leastCount, scaled } from "../../scripts/scale.js";
import { randomFrom } from "../../src/testing/random.ts";
import { policyOf } from "../../src/testing/subject.ts";
import { onFakeTime } from "../redis/on-fake-time.ts";
import { redis, server } from "../redis/own-redis.ts";
import { FAKE_CLOCK, variant } from "../redis/script-variants.js";
import { describeWithRedis, hasRedis, withRedis } from "../servers/needs.ts";
import { startUpstashBridge } from "../servers/upstash-bridge.js";
import { addStrikeLog, STRIKE_LOG, strikeLog } from "./strike-log.ts";

// At load time: the suites below read the table while they collect their tests.
const removeStrikeLog = addStrikeLog(algorithms);
afterAll(removeStrikeLog);

const lua = readFileSync(new URL("strike-log.lua", import.meta.url), "utf8");
const script = variant(joinScript({ clock: FAKE_CLOCK }, [lua]));
const options = { describe: describeWithRedis, it, algorithms: [STRIKE_LOG], time: "fake", restart: true } as const;

storeSuite(
  "memory, list state",
  () => {
    const clock = fakeClock(1_790_000_000_123);
    return { store: memoryStore({ clock }), advance: clock.advance };
  },
  { ...options, describe, restart: false },
);

storeSuite(
  "Redis, list state",
  () => {
    const clock = fakeClock(1_790_000_000_123);
    // Values expire in real time, not in that of the fake clock.
    const open = (client: RedisClient) => redisStore(client, { ttlMs: "1h" });
    const client = onFakeTime(redis, clock, script);
    return { store: open(client), advance: clock.advance, restart: () => open(client) };
  },
  options,
);

let bridge: Awaited<ReturnType<typeof startUpstashBridge>>;
let upstash: UpstashRedis;
beforeAll(async () => {
  if (!hasRedis) return;
  bridge = await startUpstashBridge(server.port);
  upstash = new UpstashRedis({ url: bridge.url, token: bridge.token, retry: { retries: 0 } });
});
afterAll(() => bridge?.stop());

let clients = 0;

/** An Upstash client that runs the script with the algorithm and a fake clock, on keys with a prefix of its own. */
function upstashOnFakeTime(now: () => number): UpstashClient {
  const prefix = `u${process.pid}.${clients++}:`;
  const rest = (keys: string[], args: string[]): [string[], string[]] => [
    keys.map((key) => prefix + key),
    [...args, String(now())],
  ];
  return {
    evalsha: (_, keys, args) => upstash.evalsha(script.sha, ...rest(keys, args)),
    eval: (_, keys, args) => upstash.eval(script.text, ...rest(keys, args)),
  };
}

storeSuite(
  "Upstash, list state",
  () => {
    const clock = fakeClock(1_790_000_000_123);
    const client = upstashOnFakeTime(clock.now);
    const open = () => upstashStore(client, { ttlMs: "1h" });
    return { store: open(), advance: clock.advance, restart: open };
  },
  options,
);

describe("random groups with penalties and list states", withRedis, () => {
  const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const steps = scaled(2000, 500);

  it(`get equal decisions on memory, Redis and Upstash, over ${steps} groups (seed ${seed})`, async () => {
    const random = randomFrom(seed);
    const clock = fakeClock(1_790_000_000_123);
    const memory = memoryStore({ clock });
    const remote: Store[] = [
      redisStore(onFakeTime(redis, clock, script), { ttlMs: "1h" }),
      upstashStore(upstashOnFakeTime(clock.now), { ttlMs: "1h" }),
    ];
    const policies = [
      policyOf(STRIKE_LOG, 3, 1000, "strikes"),
      policyOf(STRIKE_LOG, 10, 5000, "list"),
      policyOf("token-bucket", 5, 1000, "rate"),
      policyOf("fixed-window", 4, 1000, "window"),
    ].map(compilePolicy);
    const counts = { allowed: 0, denied: 0, strikes: 0 };
    for (let step = 0; step < steps; step++) {
      clock.advance(random.pick([0, 0, 1, 50, 300, 1100, -random.whole(0, 2000)]));
      const key = random.pick(["a", "b"]);
      const charges = policies
        .filter(() => random.whole(1, 2) === 1)
        .map((policy): Charge => {
          const mode = random.pick<Mode>(["take", "take", "take", "peek", "refund", "penalty", "penalty"]);
          return { policy, key, cost: random.pick([0, 1, 1, 1, 2, policy.limit, policy.limit + 1]), mode };
        });
      if (charges.length === 0) continue;
      const group: Group = random.whole(1, 40) === 1 ? [{ ...(charges[0] as Charge), mode: "reset" }] : charges;
      const before = memory.applySync(group.map((charge) => ({ ...charge, cost: 0, mode: "peek" })));
      const expected = memory.applySync(group);
      const text = `seed ${seed}, step ${step}: ${group.map(({ mode, cost, policy }) => `${mode} ${cost} of ${policy.name}`).join(" + ")}`;
      for (const store of remote) expect((await store.apply([group]))[0], text).toEqual(expected);
      counts[expected.every(({ allowed }) => allowed) ? "allowed" : "denied"]++;
      counts.strikes += group.filter(
        ({ mode }, i) => mode === "penalty" && expected[i]?.remaining !== before[i]?.remaining,
      ).length;
    }
    // The walk has to reach every kind of outcome; strikes are the rarest, 30 to 60 of 2000 groups.
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(leastCount(steps / 100));
  });
});

it("may be brought by a policy, which needs no registry", async () => {
  const clock = fakeClock(1_790_000_000_123);
  const policy = {
    algorithm: strikeLog(algorithms["sliding-log"].form),
    limit: 3,
    windowMs: 1000,
  } as unknown as Policy;
  const limiter = memoryRateLimiter(policy, { clock });
  const allowed = [1, 2, 3, 4].map(() => limiter.consumeSync("k").allowed);
  expect(allowed).toEqual([true, true, true, false]);
  expect(limiter.getPolicy()).toMatchObject({ algorithm: STRIKE_LOG, name: "3/1s hits" });
  clock.advance(1000);
  expect(await limiter.consume("k", 3)).toMatchObject({ allowed: true, remaining: 0 });
});
