/** Tests the examples of the seed documents, with their numbers, through the public API in memory. */
import { memoryRateLimiter, type Policy, type SyncRateLimiter } from "sluice";
import { describe, expect, test } from "vitest";

/** A clock that moves only when a test advances it. */
function manualClock(start = 1_800_000_000_000) {
  let now = start;
  return {
    now: () => now,
    advance(ms: number) {
      now += ms;
    },
  };
}

function limiterWithClock(policy: Policy, start?: number) {
  const clock = manualClock(start);
  return { clock, limiter: memoryRateLimiter(policy, { clock }) };
}

/** How many of `tries` requests for one key are allowed now. */
function allowedOf(tries: number, limiter: SyncRateLimiter, key = "client"): number {
  let allowed = 0;
  for (let i = 0; i < tries; i++) if (limiter.consumeSync(key).allowed) allowed++;
  return allowed;
}

describe("a token bucket of 10 at 5 per second (seed 000)", () => {
  const policy: Policy = { capacity: 10, tokensPerSecond: 5 };

  test("allows the first 10 of 11 simultaneous requests", () => {
    const { limiter } = limiterWithClock(policy);
    const allowed = Array.from({ length: 11 }, () => limiter.consumeSync("client").allowed);
    expect(allowed).toEqual([...new Array(10).fill(true), false]);
  });

  test("has 5 tokens one second after it was empty", () => {
    const { limiter, clock } = limiterWithClock(policy);
    expect(limiter.consumeSync("client", 10)).toMatchObject({ allowed: true, remaining: 0 });
    clock.advance(1000);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 4 });
  });

  test("allows exactly 2 requests 400 ms after it was empty", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    clock.advance(400);
    expect(allowedOf(10, limiter)).toBe(2);
  });

  test("loses no fraction of a token in steps of 1 ms", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    let allowed = 0;
    for (let ms = 0; ms < 1000; ms++) {
      clock.advance(1);
      allowed += allowedOf(1, limiter);
    }
    expect(allowed).toBe(5);
  });

  test("allows a retry after 200 ms when it is empty, and not 1 ms earlier", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 200 });
    clock.advance(199);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 1 });
    clock.advance(1);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("holds at most 10 after a minute without requests", async () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 8);
    clock.advance(60_000);
    expect(await limiter.peek("client")).toMatchObject({ remaining: 10, resetAfterMs: 0 });
    expect(allowedOf(20, limiter)).toBe(10);
  });
});

describe("a token bucket of 10 at 1 per second (seed 003)", () => {
  const create = () => limiterWithClock({ capacity: 10, tokensPerSecond: 1 }).limiter;

  test("allows a first request, leaves 9 and returns no retryAfterMs", async () => {
    const decision = await create().consume("user:1", 1);
    expect(decision).toMatchObject({ allowed: true, remaining: 9 });
    expect(decision).not.toHaveProperty("retryAfterMs");
  });

  test("denies the 11th request with a retryAfterMs of one second", async () => {
    const limiter = create();
    for (let i = 0; i < 10; i++) expect((await limiter.consume("user:1", 1)).allowed).toBe(true);
    expect(await limiter.consume("user:1", 1)).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 1000 });
  });

  test("leaves 7 after a cost of 3", async () => {
    expect(await create().consume("user:1", 3)).toMatchObject({ allowed: true, remaining: 7 });
  });

  test("allows 10 of 15 concurrent requests", async () => {
    const limiter = create();
    const decisions = await Promise.all(Array.from({ length: 15 }, () => limiter.consume("user:1", 1)));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  test("never allows a cost above the capacity and takes nothing", async () => {
    const limiter = create();
    expect(await limiter.consume("user:1", 11)).toMatchObject({ allowed: false, remaining: 10, retryAfterMs: null });
    expect(await limiter.consume("user:1", 10)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("limits each key separately", async () => {
    const limiter = create();
    expect(allowedOf(11, limiter, "user:1")).toBe(10);
    expect(await limiter.consume("user:2", 1)).toMatchObject({ allowed: true, remaining: 9 });
  });
});

describe("several policies (seed 003)", () => {
  test("have separate buckets for one key", async () => {
    const clock = manualClock();
    const cheap = memoryRateLimiter({ capacity: 10, tokensPerSecond: 1 }, { clock });
    const expensive = memoryRateLimiter({ capacity: 5, tokensPerSecond: 1 }, { clock });
    for (let i = 0; i < 10; i++) expect((await cheap.consume("user:1", 1)).allowed).toBe(true);
    expect((await cheap.consume("user:1", 1)).allowed).toBe(false);
    expect(await expensive.consume("user:1", 1)).toMatchObject({ allowed: true, remaining: 4 });
  });

  test("count separately with a shared clock", async () => {
    const clock = manualClock();
    const calls = memoryRateLimiter({ capacity: 100, tokensPerSecond: 50 }, { clock });
    const reports = memoryRateLimiter({ capacity: 10, tokensPerSecond: 2 }, { clock });
    expect(await calls.consume("api:user:1", 1)).toMatchObject({ allowed: true, remaining: 99 });
    expect(await reports.consume("report:user:1", 5)).toMatchObject({ allowed: true, remaining: 5 });
  });
});

describe("a sliding log of 100 per 60 seconds (seed 004)", () => {
  const policy: Policy = { algorithm: "sliding-log", limit: 100, windowMs: 60_000 };

  test("denies the 101st request until the oldest expires, and not 1 ms longer", () => {
    const { limiter, clock } = limiterWithClock(policy);
    // One request per 100 ms: the first expires after 60 s, of which 9.9 s have passed.
    for (let i = 0; i < 100; i++) {
      if (i > 0) clock.advance(100);
      expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 99 - i });
    }
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 50_100 });
    clock.advance(50_099);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 1 });
    clock.advance(1);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 0 });
    // That replaced the first request. The second expires 100 ms later.
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 100 });
  });

  test("allows no second burst at the start of a minute", () => {
    const minute = 60_000;
    const { limiter, clock } = limiterWithClock(policy, 30_000_000 * minute + 59_000);
    expect(allowedOf(150, limiter)).toBe(100);
    clock.advance(1000);
    expect(allowedOf(150, limiter)).toBe(0);
    clock.advance(58_999);
    expect(allowedOf(150, limiter)).toBe(0);
    clock.advance(1);
    expect(allowedOf(150, limiter)).toBe(100);
  });

  test("allows 100 where a fixed window allows 200", () => {
    const minute = 60_000;
    const { limiter, clock } = limiterWithClock({ ...policy, algorithm: "fixed-window" }, 30_000_000 * minute + 59_000);
    expect(allowedOf(150, limiter)).toBe(100);
    clock.advance(1000);
    expect(allowedOf(150, limiter)).toBe(100);
  });
});
