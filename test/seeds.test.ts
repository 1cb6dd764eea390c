/** The cases of the articles that sluice grew from, with their numbers, through the public API in memory. */
import { memoryRateLimiter, type Policy, type SyncRateLimiter } from "sluice";
import { describe, expect, test } from "vitest";

/** A clock that stands still until it is told to go on. */
function handClock(start = 1_800_000_000_000) {
  let now = start;
  return {
    now: () => now,
    forward(ms: number) {
      now += ms;
    },
  };
}

function limiterWithClock(policy: Policy, start?: number) {
  const clock = handClock(start);
  return { clock, limiter: memoryRateLimiter(policy, { clock }) };
}

/** How many of `tries` single requests of one key are allowed at this instant. */
function allowedOf(tries: number, limiter: SyncRateLimiter, key = "client"): number {
  let allowed = 0;
  for (let i = 0; i < tries; i++) if (limiter.consumeSync(key).allowed) allowed++;
  return allowed;
}

describe("seed 000: a token bucket of 10 that fills at 5 per second", () => {
  const policy: Policy = { capacity: 10, tokensPerSecond: 5 };

  test("10 of 11 requests at one instant pass, and the last is the one that does not", () => {
    const { limiter } = limiterWithClock(policy);
    const answers = Array.from({ length: 11 }, () => limiter.consumeSync("client").allowed);
    expect(answers).toEqual([...new Array(10).fill(true), false]);
  });

  test("a second after it was emptied 5 are back, and the first request leaves 4", () => {
    const { limiter, clock } = limiterWithClock(policy);
    expect(limiter.consumeSync("client", 10)).toMatchObject({ allowed: true, remaining: 0 });
    clock.forward(1000);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 4 });
  });

  test("400 ms after it was emptied exactly 2 pass", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    clock.forward(400);
    expect(allowedOf(10, limiter)).toBe(2);
  });

  test("in steps of 1 ms no part of a token is lost", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    let allowed = 0;
    for (let ms = 0; ms < 1000; ms++) {
      clock.forward(1);
      allowed += allowedOf(1, limiter);
    }
    expect(allowed).toBe(5);
  });

  test("an empty one is worth another try after 200 ms, and not 1 ms sooner", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 200 });
    clock.forward(199);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 1 });
    clock.forward(1);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("after a minute of rest it holds 10 and no more", async () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 8);
    clock.forward(60_000);
    expect(await limiter.peek("client")).toMatchObject({ remaining: 10, resetAfterMs: 0 });
    expect(allowedOf(20, limiter)).toBe(10);
  });
});

describe("seed 003: the contract of every adapter, with 10 at 1 per second", () => {
  const create = () => limiterWithClock({ capacity: 10, tokensPerSecond: 1 }).limiter;

  test("a first request passes, leaves 9 and names no wait", async () => {
    const decision = await create().consume("user:1", 1);
    expect(decision).toMatchObject({ allowed: true, remaining: 9 });
    expect(decision).not.toHaveProperty("retryAfterMs");
  });

  test("the 11th is denied and told to wait for the second that one token takes", async () => {
    const limiter = create();
    for (let i = 0; i < 10; i++) expect((await limiter.consume("user:1", 1)).allowed).toBe(true);
    expect(await limiter.consume("user:1", 1)).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 1000 });
  });

  test("a request that costs 3 leaves 7", async () => {
    expect(await create().consume("user:1", 3)).toMatchObject({ allowed: true, remaining: 7 });
  });

  test("of 15 at once 10 pass", async () => {
    const limiter = create();
    const decisions = await Promise.all(Array.from({ length: 15 }, () => limiter.consume("user:1", 1)));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  test("a cost above the capacity can never pass, and takes nothing", async () => {
    const limiter = create();
    expect(await limiter.consume("user:1", 11)).toMatchObject({ allowed: false, remaining: 10, retryAfterMs: null });
    expect(await limiter.consume("user:1", 10)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("a key that is spent leaves the others alone", async () => {
    const limiter = create();
    expect(allowedOf(11, limiter, "user:1")).toBe(10);
    expect(await limiter.consume("user:2", 1)).toMatchObject({ allowed: true, remaining: 9 });
  });
});

describe("seed 003: several policies side by side", () => {
  test("the budget of one is not the budget of the other, under one key", async () => {
    const clock = handClock();
    const cheap = memoryRateLimiter({ capacity: 10, tokensPerSecond: 1 }, { clock });
    const expensive = memoryRateLimiter({ capacity: 5, tokensPerSecond: 1 }, { clock });
    for (let i = 0; i < 10; i++) expect((await cheap.consume("user:1", 1)).allowed).toBe(true);
    expect((await cheap.consume("user:1", 1)).allowed).toBe(false);
    expect(await expensive.consume("user:1", 1)).toMatchObject({ allowed: true, remaining: 4 });
  });

  test("two that share what they run on each keep their own count", async () => {
    const clock = handClock();
    const calls = memoryRateLimiter({ capacity: 100, tokensPerSecond: 50 }, { clock });
    const reports = memoryRateLimiter({ capacity: 10, tokensPerSecond: 2 }, { clock });
    expect(await calls.consume("api:user:1", 1)).toMatchObject({ allowed: true, remaining: 99 });
    expect(await reports.consume("report:user:1", 5)).toMatchObject({ allowed: true, remaining: 5 });
  });
});

describe("seed 004: a sliding log of 100 per 60 seconds", () => {
  const policy: Policy = { algorithm: "sliding-log", limit: 100, windowMs: 60_000 };

  test("the 101st is denied until the oldest leaves, and not 1 ms longer", () => {
    const { limiter, clock } = limiterWithClock(policy);
    // One every 100 ms: the first leaves 60 s after it came, 9.9 s of which are over.
    for (let i = 0; i < 100; i++) {
      if (i > 0) clock.forward(100);
      expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 99 - i });
    }
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 50_100 });
    clock.forward(50_099);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 1 });
    clock.forward(1);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 0 });
    // That was the place of the first; the second leaves 100 ms after it.
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 100 });
  });

  test("no two bursts meet at the turn of a minute", () => {
    const minute = 60_000;
    const { limiter, clock } = limiterWithClock(policy, 30_000_000 * minute + 59_000);
    expect(allowedOf(150, limiter)).toBe(100);
    clock.forward(1000);
    expect(allowedOf(150, limiter)).toBe(0);
    clock.forward(58_999);
    expect(allowedOf(150, limiter)).toBe(0);
    clock.forward(1);
    expect(allowedOf(150, limiter)).toBe(100);
  });

  test("the fixed counter that it is there to replace lets 200 through", () => {
    const minute = 60_000;
    const { limiter, clock } = limiterWithClock({ ...policy, algorithm: "fixed-window" }, 30_000_000 * minute + 59_000);
    expect(allowedOf(150, limiter)).toBe(100);
    clock.forward(1000);
    expect(allowedOf(150, limiter)).toBe(100);
  });
});
