/** The whole contract kit on one kind of client: with a clock that can be moved, and as users have it. */
import type { RateLimiter } from "sluice";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { afterAll, beforeAll, describe, it } from "vitest";
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
