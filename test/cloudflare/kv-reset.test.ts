/** Resets in a simulated KV with several isolates. */
import { fixedWindow, type RateLimiter } from "sluice";
import { kvRateLimiter } from "sluice/cloudflare";
import { describe, expect, it } from "vitest";
import {
  admittedOf,
  advance,
  CACHED_MS,
  inLocations,
  KVDatabase,
  KVLocation,
  remainingOf,
  useFakeTime,
} from "./simulated-kv.ts";

useFakeTime();

describe("a reset", () => {
  it("applies at once in its own isolate although reads still return the old value", async () => {
    const { limiters } = inLocations(fixedWindow("5/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    await limiter.consume("k", 5);
    advance(1500);
    await limiter.reset("k");
    for (let i = 0; i < 100; i++) {
      advance(1500);
      expect(await remainingOf(limiter)).toBe(5);
    }
  });

  it("is not undone by a concurrent read or a delayed write", async () => {
    const central = new KVDatabase();
    const place = new KVLocation(central);
    const pending: Promise<unknown>[] = [];
    const limiter = kvRateLimiter(place, fixedWindow("5/1h"), { waitUntil: (promise) => void pending.push(promise) });
    await limiter.consume("k", 2);
    await limiter.consume("k", 2);
    advance(1500);
    const late = limiter.peek("k", 0);
    await limiter.reset("k");
    await late;
    advance(1500);
    await Promise.all(pending);
    advance(1500);
    expect(await remainingOf(limiter)).toBe(5);
  });

  it("is not lost if another isolate writes before it has read it", async () => {
    const { locations, limiters } = inLocations(fixedWindow("10/1h"), 3);
    const [admin, busy, third] = limiters as [RateLimiter, RateLimiter, RateLimiter];
    await admittedOf(busy, 9);
    advance(1500);
    await admin.reset("k");
    advance(1500);
    await busy.consume("k");
    for (let second = 0; second < 200; second++) {
      advance(1000);
      await admin.peek("k", 0);
      await busy.peek("k", 0);
    }
    expect(await remainingOf(busy)).toBe(10);
    (locations[2] as KVLocation).clearCache();
    expect(await remainingOf(third)).toBe(10);
  });

  it("is dropped once earlier counts have expired", async () => {
    const { limiters } = inLocations(fixedWindow("5/1h"), 2);
    const [a, b] = limiters as [RateLimiter, RateLimiter];
    await a.reset("k");
    advance(86_400_000);
    expect(await admittedOf(b, 10)).toBe(5);
    advance(1500);
    await b.consume("k", 0);
    advance(CACHED_MS + 2000);
    expect(await admittedOf(a, 10)).toBe(0);
    advance(CACHED_MS + 2000);
    expect(await admittedOf(b, 10)).toBe(0);
  });

  it("reads and writes the key once", async () => {
    const { locations, limiters } = inLocations(fixedWindow("5/1h"), 1);
    const [location] = locations as [KVLocation];
    await (limiters[0] as RateLimiter).reset("k");
    expect([location.reads, location.writes]).toEqual([1, 1]);
  });

  it("rejects if it can't be written", async () => {
    const { locations, limiters } = inLocations(fixedWindow("5/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    (locations[0] as KVLocation).rejectsWrites = true;
    await expect(limiter.reset("k")).rejects.toMatchObject({ cause: { message: expect.stringMatching(/429/) } });
  });

  it("is adopted by a busy isolate once it has read it", async () => {
    const { limiters } = inLocations(fixedWindow("100/1h"), 2);
    const [busy, admin] = limiters as [RateLimiter, RateLimiter];
    for (let second = 0; second < 50; second++) {
      await busy.consume("k", 2);
      advance(1000);
    }
    expect(await remainingOf(busy)).toBe(0);
    await admin.reset("k");
    advance(CACHED_MS + 2000);
    expect(await remainingOf(busy)).toBe(100);
  });
});
