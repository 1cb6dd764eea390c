/** The contract suites on Redis: with a fake clock, and with the server's clock and all defaults. */
import { type RedisClient, redisRateLimiter, redisStore } from "sluice/redis";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { it } from "vitest";
import { describeWithRedis } from "../servers/needs.ts";
import { onFakeTime } from "./on-fake-time.ts";
import { redis } from "./own-redis.ts";

storeSuite(
  "redis",
  () => {
    const clock = fakeClock(1_790_000_000_123);
    // TTLs pass in real time, not in that of the fake clock.
    const open = (client: RedisClient) => redisStore(client, { ttlMs: "1h" });
    const client = onFakeTime(redis, clock);
    return { store: open(client), advance: clock.advance, restart: () => open(client) };
  },
  { describe: describeWithRedis, it, time: "fake", restart: true },
);

let made = 0;
describeRateLimiter(
  "redis with its own clock and all defaults",
  (policy) => {
    const limiter = redisRateLimiter(redis, { ...policy, prefix: `kit ${made++}` }, { deadlineMs: "20s" });
    return { limiter, advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)) };
  },
  { describe: describeWithRedis, it, time: "real" },
);
