/** Counts of several isolates in a simulated KV: bounds, own grants, clocks, number of reads and writes. */
import { type Decision, fixedWindow, type RateLimiter, slidingLog, slidingWindow } from "sluice";
import { kvRateLimiter } from "sluice/cloudflare";
import { describe, expect, it, vi } from "vitest";
import { admittedOf, advance, inLocations, KVDatabase, KVLocation, remainingOf, useFakeTime } from "./simulated-kv.ts";

useFakeTime();

describe("the bound of a KV limiter", () => {
  it.each([
    ["fixed window", fixedWindow("100/1d")],
    ["sliding window", slidingWindow("100/1d")],
    ["sliding log", slidingLog("100/1d")],
  ])("%s: holds per isolate for an hour, whatever other isolates overwrite", async (_, policy) => {
    const { limiters } = inLocations(policy, 2);
    const [busy, calm] = limiters as [RateLimiter, RateLimiter];
    let [byBusy, byCalm] = [0, 0];
    for (let second = 0; second < 3600; second++) {
      byBusy += await admittedOf(busy, 5);
      if (second % 5 === 0) byCalm += await admittedOf(calm, 1);
      advance(1000);
    }
    expect(byBusy).toBeLessThanOrEqual(100);
    expect(byCalm).toBeLessThanOrEqual(100);
    // They see each other's counts after a minute.
    expect(byBusy + byCalm).toBeLessThan(200);
  });
});

describe("the own count of an isolate", () => {
  it("is refunded although reads still return the old value", async () => {
    const { limiters } = inLocations(fixedWindow("5/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    await limiter.consume("k", 4);
    await limiter.refund("k", 4);
    for (let i = 0; i < 100; i++) {
      advance(1500);
      expect(await remainingOf(limiter)).toBe(5);
    }
  });

  it("counts after its write was rejected and another isolate's value is read", async () => {
    const { locations, limiters } = inLocations(fixedWindow("8/1h"), 2);
    const [a, b] = limiters as [RateLimiter, RateLimiter];
    await a.consume("k", 0);
    (locations[0] as KVLocation).rejectsWrites = true;
    await a.consume("k", 5);
    await b.consume("k", 5);
    (locations[0] as KVLocation).clearCache();
    advance(1500);
    expect(await remainingOf(a)).toBe(0);
    (locations[0] as KVLocation).rejectsWrites = false;
    advance(1500);
    await a.consume("k", 0);
    (locations[1] as KVLocation).clearCache();
    advance(1500);
    // The next write contains it.
    expect(await remainingOf(b)).toBe(0);
  });

  it("is written after a second although the clock stands still during a request", async () => {
    const central = new KVDatabase();
    const place = new KVLocation(central);
    const pending: Promise<unknown>[] = [];
    const limiter = kvRateLimiter(place, fixedWindow("5/1h"), { waitUntil: (promise) => void pending.push(promise) });
    for (let i = 0; i < 3; i++) await limiter.consume("k");
    expect(pending).toHaveLength(2);
    advance(1000);
    await Promise.all(pending);
    const [value] = central.values.values();
    expect(JSON.parse(value as string).isolates).toEqual({
      [Object.keys(JSON.parse(value as string).isolates)[0] as string]: [3, expect.any(Number), 3],
    });
  });

  it.each([
    ["fixed window", fixedWindow("5/1h"), 25_000],
    ["sliding log", slidingLog("5/1h"), 25_000],
  ])("%s: survives a flood of other keys, also if it was evicted for them", async (_, policy, keys) => {
    const { limiters } = inLocations(policy, 1);
    const [limiter] = limiters as [RateLimiter];
    let admitted = 0;
    for (let burst = 0; burst < 3; burst++) {
      admitted += await admittedOf(limiter, 10);
      advance(1500);
      await limiter.consume("k", 0);
      for (let i = 0; i < keys; i++) await limiter.consume(`flood ${burst} ${i}`);
      advance(1500);
    }
    expect(admitted).toBe(5);
  });

  it.each([
    ["fixed window", fixedWindow("5/1h")],
    ["sliding log", slidingLog("5/1h")],
  ])("%s: survives a flood of new keys although reads are a minute old (issue 13)", async (_, policy) => {
    const { locations, limiters } = inLocations(policy, 1);
    const [limiter] = limiters as [RateLimiter];
    (locations[0] as KVLocation).seesOwnWritesLate = true;
    let admitted = await admittedOf(limiter, 10);
    advance(1500);
    // All of it is written now, so unwritten changes don't protect it from eviction.
    admitted += await admittedOf(limiter, 1);
    for (let i = 0; i < 40_000; i++) await limiter.consume(`flood ${i}`);
    admitted += await admittedOf(limiter, 10);
    expect(admitted).toBe(5);
  });

  it("includes concurrent requests for one key while other keys fill the isolate", async () => {
    const { locations, limiters } = inLocations(fixedWindow("5/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    for (let i = 0; i < 20_000; i++) await limiter.consume(`before ${i}`);
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const read = vi.spyOn(locations[0] as KVLocation, "get").mockImplementation(() => released.then(() => null));
    const decisions: Promise<Decision>[] = [];
    for (let i = 0; i < 20; i++) {
      decisions.push(limiter.consume("k"));
      for (let other = 0; other < 200; other++) void limiter.consume(`meanwhile ${i} ${other}`);
    }
    release();
    const admitted = (await Promise.all(decisions)).filter(({ allowed }) => allowed);
    read.mockRestore();
    expect(admitted).toHaveLength(5);
  });

  it("is written again after another isolate has overwritten it", async () => {
    const { locations, limiters } = inLocations(fixedWindow("5/1h"), 3);
    const [a, b, c] = limiters as [RateLimiter, RateLimiter, RateLimiter];
    await b.consume("k", 0);
    expect(await admittedOf(a, 5)).toBe(5);
    advance(1500);
    // It has not read the first isolate's write yet.
    await b.consume("k");
    for (let second = 0; second < 200; second++) {
      advance(1000);
      await a.consume("k");
    }
    (locations[2] as KVLocation).clearCache();
    expect(await remainingOf(c)).toBe(0);
  });

  it("excludes a call that the fallback has decided", async () => {
    const place = new KVLocation(new KVDatabase());
    const limiter = kvRateLimiter(place, fixedWindow("5/1h"), { deadlineMs: 20, localDenialMs: 0 });
    vi.restoreAllMocks();
    let release = () => {};
    const slow = vi.spyOn(place, "get").mockImplementation(
      () =>
        new Promise((resolve) => {
          release = () => resolve(null);
        }),
    );
    expect(await limiter.consume("k", 2)).toMatchObject({ degraded: true });
    slow.mockRestore();
    release();
    await Promise.resolve();
    expect((await limiter.peek("k", 0)).remaining).toBe(5);
  });
});

describe("a wrong clock", () => {
  it.each([
    ["fixed window", fixedWindow("5/10s")],
    ["sliding window", slidingWindow("5/10s")],
    ["sliding log", slidingLog("5/10s")],
  ])("%s: does not free a key if it is ahead", async (_, policy) => {
    const { limiters } = inLocations(policy, 2);
    const [ahead, correct] = limiters as [RateLimiter, RateLimiter];
    advance(25_000);
    await ahead.consume("k");
    advance(-25_000);
    expect(await admittedOf(correct, 100)).toBeLessThanOrEqual(5);
  });

  it.each([
    ["fixed window", fixedWindow("5/1m"), 1],
    ["sliding window", slidingWindow("5/1m"), 2],
    ["sliding log", slidingLog("5/1m"), 1],
  ])("%s: denies for no longer than a window after it is set back", async (_, policy, windows) => {
    const { limiters } = inLocations(policy, 1);
    const [limiter] = limiters as [RateLimiter];
    advance(86_400_000);
    await admittedOf(limiter, 5);
    advance(-86_400_000);
    await limiter.consume("k");
    advance(windows * 60_000 + 1);
    expect((await limiter.consume("k")).allowed).toBe(true);
  });
});

describe("reads and writes", () => {
  it("are few: while one request refreshes a key, others use the cached counts", async () => {
    const { locations, limiters } = inLocations(fixedWindow("1000/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    await limiter.consume("k");
    advance(1500);
    await Promise.all(Array.from({ length: 50 }, () => limiter.consume("k")));
    expect((locations[0] as KVLocation).reads).toBe(2);
    expect((locations[0] as KVLocation).writes).toBe(2);
  });

  it("emit one warning if they fail, and don't change decisions", async () => {
    const place = new KVLocation(new KVDatabase());
    const put = vi.spyOn(place, "put").mockRejectedValue(new Error("KV PUT failed: 403 daily limit"));
    const events: string[] = [];
    const limiter = kvRateLimiter(place, fixedWindow("5/1h"), {
      waitUntil: () => {},
      onEvent: (event) => void events.push(event.type === "warning" ? event.message : event.type),
      localDenialMs: 0,
    });
    let admitted = 0;
    for (let i = 0; i < 20; i++) {
      const decision = await limiter.consume("k");
      expect(decision.degraded).toBeUndefined();
      if (decision.allowed) admitted++;
      advance(700);
    }
    expect(admitted).toBe(5);
    expect(events).toEqual([
      expect.stringMatching(/Writes to KV fail, so each isolate counts on its own: .*daily limit/),
    ]);
    put.mockRestore();
  });

  it("reject a waitUntil that does not work without its object", async () => {
    const ctx = {
      mine: true,
      waitUntil(this: { mine: boolean } | undefined, _promise: Promise<unknown>) {
        if (!this?.mine) throw new TypeError("Illegal invocation");
      },
    };
    const { waitUntil } = ctx;
    const limiter = kvRateLimiter(new KVLocation(new KVDatabase()), fixedWindow("5/1h"), {
      waitUntil: waitUntil as never,
    });
    await expect(limiter.consume("k")).rejects.toThrow(/^waitUntil must be a function that works without its object/);
  });
});
