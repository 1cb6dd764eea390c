/** Penalties through a middleware: one table of cases, equal on memory and Redis. Durable Objects: test/cloudflare. */
import { memoryStore } from "sluice";
import { redisStore } from "sluice/redis";
import { fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { onFakeTime } from "../redis/on-fake-time.ts";
import { redis } from "../redis/own-redis.ts";
import { withRedis } from "../servers/needs.ts";
import { expected, runTable, summaryOf } from "./penalty-table.ts";

function inMemory() {
  const clock = fakeClock();
  return runTable(memoryStore({ clock }), (ms) => clock.advance(ms));
}

describe("penalties", () => {
  it("block, grow, are forgotten and are ended as the table says", async () => {
    expect(summaryOf(await inMemory())).toEqual(expected());
  });

  it("are equal field by field on Redis", withRedis, async () => {
    const clock = fakeClock();
    // TTLs pass in real time, not in that of the fake clock.
    const store = redisStore(onFakeTime(redis, clock), { ttlMs: "1h" });
    expect(await runTable(store, (ms) => clock.advance(ms))).toEqual(await inMemory());
  });
});
