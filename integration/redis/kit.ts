/** The whole contract kit on one kind of client: with a clock that can be moved, and as users have it. */
import type { RateLimiter } from "sluice";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { onFakeTime } from "./intercepted.ts";
import { connected, type Kind } from "./kind.ts";

let made = 0;

export function kit<Client extends object>(name: string, kind: Kind<Client>): void {
  let shared: Client;
  const opened: (() => Promise<void>)[] = [];
  const connect = () => connected(kind, (close) => opened.push(close));
  beforeAll(async () => {
    shared = await connect();
  });
  afterAll(() => Promise.all(opened.map((close) => close())));

  storeSuite(
    name,
    () => {
      const clock = fakeClock(1_790_000_000_123);
      const prefix = `t${made++}:`;
      // The keys' times to live pass in real time, which is not the clock's here.
      const store = (client: Client) => kind.storeOn(onFakeTime(client, clock, prefix), { ttlMs: "1h" });
      return { store: store(shared), advance: clock.advance, restart: async () => store(await connect()) };
    },
    { describe, it, time: "fake", restart: true },
  );

  describeRateLimiter(
    `${name}, on its own clock, with all defaults`,
    (policy) => {
      const limiter = kind.limiterOn(shared, { ...policy, prefix: `kit ${made++}` }, { deadlineMs: "20s" });
      return { limiter: undegraded(limiter), advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)) };
    },
    { describe, it, time: "real" },
  );

  it(`${name}: a caller that has waited retryAfterMs in full is admitted, 500 times`, async () => {
    const limiter = kind.limiterOn(
      shared,
      { capacity: 3, tokensPerSecond: "3/300ms", prefix: `retry ${made++}` },
      { deadlineMs: "20s" },
    );
    const denied: string[] = [];
    const retry = async (key: string) => {
      let decision = await limiter.consume(key);
      while (decision.allowed) decision = await limiter.consume(key);
      const until = performance.now() + (decision.retryAfterMs as number);
      await new Promise((resolve) => setTimeout(resolve, decision.retryAfterMs as number));
      // A timer that fired early has not waited: the rest is waited for, with cached denials still in force.
      while (performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 1));
      if (!(await limiter.consume(key)).allowed) denied.push(`${key} after ${decision.retryAfterMs} ms`);
    };
    for (let wave = 0; wave < 10; wave++) {
      await Promise.all(Array.from({ length: 50 }, (_, i) => retry(`wave ${wave} key ${i}`)));
    }
    expect(denied).toEqual([]);
  });
}

/** By default a limiter decides alone when its store fails, and would pass the kit without any Redis. */
function undegraded(limiter: RateLimiter): RateLimiter {
  const honest =
    (method: "consume" | "peek") =>
    async (...args: [key: string, cost?: number]) => {
      const decision = await limiter[method](...args);
      if (decision.degraded) throw new Error("decided without Redis");
      return decision;
    };
  const own: Record<PropertyKey, unknown> = { consume: honest("consume"), peek: honest("peek") };
  return new Proxy(limiter, { get: (target, name) => own[name] ?? bound(target, name) });
}

function bound(target: object, name: PropertyKey): unknown {
  const value = Reflect.get(target, name);
  return typeof value === "function" ? value.bind(target) : value;
}
