/** Retries above the replay limit: the store does not read their response. */

import { idempotent } from "sluice/fetch";
import { type IdempotencyStore, memoryIdempotencyStore } from "sluice/idempotency";
import { redisIdempotencyStore } from "sluice/redis";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { redis } from "../redis/own-redis.ts";
import { withEmptyDatabase } from "../redis/spied-client.ts";
import { withRedis } from "../servers/needs.ts";
import { codeOf, payment, scope } from "./payment-server.ts";

const BODY_BYTES = 65_536;
const REPLAYS = 5;

withEmptyDatabase();

/** Sends a payment, as many replays as are allowed, and then many that are denied. */
async function flood(store: IdempotencyStore, denied: number, beforeFlood: () => Promise<void>) {
  const handler = idempotent({ store, scope, replayLimit: `${REPLAYS}/h`, deadlineMs: "20s" })(
    async () => new Response("x".repeat(BODY_BYTES), { status: 201 }),
  );
  const first = [];
  for (let i = 0; i <= REPLAYS; i++) first.push((await handler(payment())).status);
  expect(first).toEqual(Array(REPLAYS + 1).fill(201));
  await beforeFlood();
  const statuses = await Promise.all(Array.from({ length: denied }, async () => (await handler(payment())).status));
  expect(statuses).toEqual(Array(denied).fill(429));
  return handler;
}

describe("a replay that is denied", () => {
  it("makes Redis send no stored body: less than 1 kB each", withRedis, async () => {
    const sent = async () => Number(/total_net_output_bytes:(\d+)/.exec(await redis.info("stats"))?.[1]);
    let before = 0;
    const denied = 200;
    await flood(redisIdempotencyStore(redis), denied, async () => void (before = await sent()));
    expect(((await sent()) - before) / denied).toBeLessThan(1000);
  });

  it("reads nothing from a store, whose fresh requests need no call more", async () => {
    const inner = memoryIdempotencyStore();
    const calls: string[] = [];
    const spied = new Proxy(inner, {
      get: (_, name: keyof IdempotencyStore) => {
        const member = inner[name];
        if (typeof member !== "function") return member;
        return (...args: never[]) => {
          calls.push(name);
          return (member as (...args: never[]) => unknown).apply(inner, args);
        };
      },
    });
    await flood(spied, 50, async () => {
      expect(calls.slice(0, 4)).toEqual(["begin", "complete", "begin", "read"]);
      calls.length = 0;
    });
    expect(calls).toEqual(Array(50).fill("begin"));
  });

  it("does not run the handler again if the store fails while the response is read, also with open", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const inner = memoryIdempotencyStore();
    const store: IdempotencyStore = {
      begin: (claim) => inner.begin(claim),
      read: () => Promise.reject(new Error("down")),
      renew: (...args) => inner.renew(...args),
      complete: (...args) => inner.complete(...args),
      release: (...args) => inner.release(...args),
    };
    let runs = 0;
    const handler = idempotent({ store, scope, onStoreError: "open" })(async () => new Response(`run ${++runs}`));
    expect((await handler(payment())).status).toBe(200);
    const retry = await handler(payment());
    expect([retry.status, await codeOf(retry), runs]).toEqual([503, "store-unavailable", 1]);
  });
});
