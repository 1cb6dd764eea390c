/** The contract suites on one kind of client: with a fake clock, and with the server's clock and all defaults. */
import type { RateLimiter } from "sluice";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClientKind, openClient } from "./client-kind.ts";
import { withFakeTime } from "./intercept.ts";

let prefixes = 0;

export function contractSuites<Client extends object>(name: string, kind: ClientKind<Client>): void {
  let shared: Client;
  const closers: (() => Promise<void>)[] = [];
  const connect = () => openClient(kind, (close) => closers.push(close));
  beforeAll(async () => {
    shared = await connect();
  });
  afterAll(() => Promise.all(closers.map((close) => close())));

  storeSuite(
    name,
    () => {
      const clock = fakeClock(1_790_000_000_123);
      const prefix = `t${prefixes++}:`;
      // TTLs pass in real time, not in that of the fake clock.
      const store = (client: Client) => kind.createStore(withFakeTime(client, clock, prefix), { ttlMs: "1h" });
      return { store: store(shared), advance: clock.advance, restart: async () => store(await connect()) };
    },
    { describe, it, time: "fake", restart: true },
  );

  describeRateLimiter(
    `${name} with its own clock and all defaults`,
    (policy) => {
      const limiter = kind.createLimiter(shared, { ...policy, prefix: `kit ${prefixes++}` }, { deadlineMs: "20s" });
      return { limiter: withoutFallback(limiter), advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)) };
    },
    { describe, it, time: "real" },
  );

  it(`${name}: admits a caller after it has waited retryAfterMs, 500 times`, async () => {
    const limiter = kind.createLimiter(
      shared,
      { capacity: 3, tokensPerSecond: "3/300ms", prefix: `retry ${prefixes++}` },
      { deadlineMs: "20s" },
    );
    const denied: string[] = [];
    const retry = async (key: string) => {
      let decision = await limiter.consume(key);
      while (decision.allowed) decision = await limiter.consume(key);
      const until = performance.now() + (decision.retryAfterMs as number);
      await new Promise((resolve) => setTimeout(resolve, decision.retryAfterMs as number));
      // Timers may fire early: wait for the rest, while cached denials are still in force.
      while (performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 1));
      if (!(await limiter.consume(key)).allowed) denied.push(`${key} after ${decision.retryAfterMs} ms`);
    };
    for (let wave = 0; wave < 10; wave++) {
      await Promise.all(Array.from({ length: 50 }, (_, i) => retry(`wave ${wave} key ${i}`)));
    }
    expect(denied).toEqual([]);
  });
}

/** Rejects degraded decisions: with its fallback a limiter would pass the suite without Redis. */
function withoutFallback(limiter: RateLimiter): RateLimiter {
  const checked =
    (method: "consume" | "peek") =>
    async (...args: [key: string, cost?: number]) => {
      const decision = await limiter[method](...args);
      if (decision.degraded) throw new Error("decided without Redis");
      return decision;
    };
  const overrides: Record<PropertyKey, unknown> = { consume: checked("consume"), peek: checked("peek") };
  return new Proxy(limiter, { get: (target, name) => overrides[name] ?? bound(target, name) });
}

function bound(target: object, name: PropertyKey): unknown {
  const value = Reflect.get(target, name);
  return typeof value === "function" ? value.bind(target) : value;
}
