/** KV as it is in production, which no local KV shows: a cache in each place, late writes, refusals, a clock that stands still. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Decision } from "../../../core/decision.ts";
import type { Policy } from "../../../core/policy.ts";
import type { RateLimiter } from "../../../core/rate-limiter.ts";
import { fixedWindow, slidingLog, slidingWindow } from "../../../core/shorthand.ts";
import type { KVNamespaceLike } from "../platform.ts";
import { kvRateLimiter } from "./rate-limiter.ts";

const CACHED_MS = 60_000;
let now = 0;

beforeEach(() => {
  // The middle of a day and of an hour.
  now = 1_790_000_000_000 - (1_790_000_000_000 % 86_400_000) + 43_200_000 + 1_800_000;
  vi.spyOn(Date, "now").mockImplementation(() => now);
  vi.spyOn(performance, "now").mockImplementation(() => now - 1_780_000_000_000);
});
afterEach(() => vi.restoreAllMocks());

/** What all places share. */
class Central {
  readonly values: Map<string, string> = new Map();
  readonly writtenAt: Map<string, number> = new Map();
}

/** One place: what was read there is read again for a minute, but for its own writes. */
class Place implements KVNamespaceLike {
  refuse = false;
  /** Whether even its own writes are read a minute late. KV only promises that they are seen some time. */
  seesOwnWritesLate = false;
  reads = 0;
  writes = 0;
  private readonly central: Central;
  private readonly cache: Map<string, { value: string | null; until: number }> = new Map();

  constructor(central: Central) {
    this.central = central;
  }

  async get(key: string): Promise<string | null> {
    this.reads++;
    const known = this.cache.get(key);
    if (known && now < known.until) return known.value;
    const value = this.central.values.get(key) ?? null;
    this.cache.set(key, { value, until: now + CACHED_MS });
    return value;
  }

  async put(key: string, value: string): Promise<void> {
    if (this.refuse || now - (this.central.writtenAt.get(key) ?? 0) < 1000) throw new Error("429 Too Many Requests");
    this.writes++;
    this.central.writtenAt.set(key, now);
    this.central.values.set(key, value);
    if (!this.seesOwnWritesLate) this.cache.set(key, { value, until: now + CACHED_MS });
  }

  async delete(key: string): Promise<void> {
    this.central.values.delete(key);
  }

  /** As after a minute. */
  forgetCache(): void {
    this.cache.clear();
  }
}

function placesWith(policy: Policy, count: number): { places: Place[]; limiters: RateLimiter[] } {
  const central = new Central();
  const places = Array.from({ length: count }, () => new Place(central));
  return {
    places,
    limiters: places.map((place) => kvRateLimiter(place, policy, { localDenialMs: 0, onStoreError: "throw" })),
  };
}

async function left(limiter: RateLimiter): Promise<number> {
  return (await limiter.peek("k", 0)).remaining;
}

async function asks(limiter: RateLimiter, count: number): Promise<number> {
  let admitted = 0;
  for (let i = 0; i < count; i++) if ((await limiter.consume("k")).allowed) admitted++;
  return admitted;
}

describe("the bound", () => {
  it.each([
    ["fixed window", fixedWindow("100/1d")],
    ["sliding window", slidingWindow("100/1d")],
    ["sliding log", slidingLog("100/1d")],
  ])("%s: no isolate admits more than it would alone, for hours, whatever the others overwrite", async (_, policy) => {
    const { limiters } = placesWith(policy, 2);
    const [busy, calm] = limiters as [RateLimiter, RateLimiter];
    let [byBusy, byCalm] = [0, 0];
    for (let second = 0; second < 3600; second++) {
      byBusy += await asks(busy, 5);
      if (second % 5 === 0) byCalm += await asks(calm, 1);
      now += 1000;
    }
    expect(byBusy).toBeLessThanOrEqual(100);
    expect(byCalm).toBeLessThanOrEqual(100);
    // They do see each other after a minute.
    expect(byBusy + byCalm).toBeLessThan(200);
  });
});

describe("what an isolate has done itself", () => {
  it("is given back for good by a refund, though reads still show it", async () => {
    const { limiters } = placesWith(fixedWindow("5/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    await limiter.consume("k", 4);
    await limiter.refund("k", 4);
    for (let i = 0; i < 100; i++) {
      now += 1500;
      expect(await left(limiter)).toBe(5);
    }
  });

  it("counts when its write was refused and another isolate's is read", async () => {
    const { places, limiters } = placesWith(fixedWindow("8/1h"), 2);
    const [a, b] = limiters as [RateLimiter, RateLimiter];
    await a.consume("k", 0);
    (places[0] as Place).refuse = true;
    await a.consume("k", 5);
    await b.consume("k", 5);
    (places[0] as Place).forgetCache();
    now += 1500;
    expect(await left(a)).toBe(0);
    (places[0] as Place).refuse = false;
    now += 1500;
    await a.consume("k", 0);
    (places[1] as Place).forgetCache();
    now += 1500;
    // And is written with what comes next.
    expect(await left(b)).toBe(0);
  });

  it("is written at the end of the second though the clock stands still", async () => {
    const central = new Central();
    const place = new Place(central);
    const waiting: Promise<unknown>[] = [];
    const limiter = kvRateLimiter(place, fixedWindow("5/1h"), { waitUntil: (promise) => void waiting.push(promise) });
    for (let i = 0; i < 3; i++) await limiter.consume("k");
    expect(waiting).toHaveLength(2);
    now += 1000;
    await Promise.all(waiting);
    const [value] = central.values.values();
    expect(JSON.parse(value as string).isolates).toEqual({
      [Object.keys(JSON.parse(value as string).isolates)[0] as string]: [3, expect.any(Number), 3],
    });
  });

  it.each([
    ["fixed window", fixedWindow("5/1h"), 25_000],
    ["sliding log", slidingLog("5/1h"), 25_000],
  ])("%s: survives a spray of other keys, also when it was given up for them", async (_, policy, keys) => {
    const { limiters } = placesWith(policy, 1);
    const [limiter] = limiters as [RateLimiter];
    let admitted = 0;
    for (let burst = 0; burst < 3; burst++) {
      admitted += await asks(limiter, 10);
      now += 1500;
      await limiter.consume("k", 0);
      for (let i = 0; i < keys; i++) await limiter.consume(`spray ${burst} ${i}`);
      now += 1500;
    }
    expect(admitted).toBe(5);
  });

  it.each([
    ["fixed window", fixedWindow("5/1h")],
    ["sliding log", slidingLog("5/1h")],
  ])(
    "%s: a spray of new keys does not free a denied key, though reads are a minute old (issue 13)",
    async (_, policy) => {
      const { places, limiters } = placesWith(policy, 1);
      const [limiter] = limiters as [RateLimiter];
      (places[0] as Place).seesOwnWritesLate = true;
      let admitted = await asks(limiter, 10);
      now += 1500;
      // All of it is written now, so that nothing else keeps it here.
      admitted += await asks(limiter, 1);
      for (let i = 0; i < 40_000; i++) await limiter.consume(`spray ${i}`);
      admitted += await asks(limiter, 10);
      expect(admitted).toBe(5);
    },
  );

  it("counts requests for one key together while others fill the isolate", async () => {
    const { places, limiters } = placesWith(fixedWindow("5/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    for (let i = 0; i < 20_000; i++) await limiter.consume(`before ${i}`);
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const read = vi.spyOn(places[0] as Place, "get").mockImplementation(() => opened.then(() => null));
    const decisions: Promise<Decision>[] = [];
    for (let i = 0; i < 20; i++) {
      decisions.push(limiter.consume("k"));
      for (let other = 0; other < 200; other++) void limiter.consume(`meanwhile ${i} ${other}`);
    }
    open();
    const admitted = (await Promise.all(decisions)).filter(({ allowed }) => allowed);
    read.mockRestore();
    expect(admitted).toHaveLength(5);
  });

  it("is written again when somebody has overwritten it", async () => {
    const { places, limiters } = placesWith(fixedWindow("5/1h"), 3);
    const [a, b, c] = limiters as [RateLimiter, RateLimiter, RateLimiter];
    await b.consume("k", 0);
    expect(await asks(a, 5)).toBe(5);
    now += 1500;
    // It has not seen what the first one wrote.
    await b.consume("k");
    for (let second = 0; second < 200; second++) {
      now += 1000;
      await a.consume("k");
    }
    (places[2] as Place).forgetCache();
    expect(await left(c)).toBe(0);
  });

  it("is not charged for a call that was decided without it", async () => {
    const place = new Place(new Central());
    const limiter = kvRateLimiter(place, fixedWindow("5/1h"), { deadlineMs: 20, localDenialMs: 0 });
    vi.restoreAllMocks();
    let open = () => {};
    const slow = vi.spyOn(place, "get").mockImplementation(
      () =>
        new Promise((resolve) => {
          open = () => resolve(null);
        }),
    );
    expect(await limiter.consume("k", 2)).toMatchObject({ degraded: true });
    slow.mockRestore();
    open();
    await Promise.resolve();
    expect((await limiter.peek("k", 0)).remaining).toBe(5);
  });
});

describe("clocks", () => {
  it.each([
    ["fixed window", fixedWindow("5/10s")],
    ["sliding window", slidingWindow("5/10s")],
    ["sliding log", slidingLog("5/10s")],
  ])("%s: one that is ahead frees nobody", async (_, policy) => {
    const { limiters } = placesWith(policy, 2);
    const [ahead, right] = limiters as [RateLimiter, RateLimiter];
    now += 25_000;
    await ahead.consume("k");
    now -= 25_000;
    expect(await asks(right, 100)).toBeLessThanOrEqual(5);
  });

  it.each([
    ["fixed window", fixedWindow("5/1m"), 1],
    ["sliding window", slidingWindow("5/1m"), 2],
    ["sliding log", slidingLog("5/1m"), 1],
  ])("%s: one that was ahead and is set right locks nobody out", async (_, policy, windows) => {
    const { limiters } = placesWith(policy, 1);
    const [limiter] = limiters as [RateLimiter];
    now += 86_400_000;
    await asks(limiter, 5);
    now -= 86_400_000;
    await limiter.consume("k");
    now += windows * 60_000 + 1;
    expect((await limiter.consume("k")).allowed).toBe(true);
  });
});

describe("a reset", () => {
  it("holds where it was made, though reads still show what was there", async () => {
    const { limiters } = placesWith(fixedWindow("5/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    await limiter.consume("k", 5);
    now += 1500;
    await limiter.reset("k");
    for (let i = 0; i < 100; i++) {
      now += 1500;
      expect(await left(limiter)).toBe(5);
    }
  });

  it("is not undone by a request that was reading, nor by a write that was put off", async () => {
    const central = new Central();
    const place = new Place(central);
    const waiting: Promise<unknown>[] = [];
    const limiter = kvRateLimiter(place, fixedWindow("5/1h"), { waitUntil: (promise) => void waiting.push(promise) });
    await limiter.consume("k", 2);
    await limiter.consume("k", 2);
    now += 1500;
    const late = limiter.peek("k", 0);
    await limiter.reset("k");
    await late;
    now += 1500;
    await Promise.all(waiting);
    now += 1500;
    expect(await left(limiter)).toBe(5);
  });

  it("is not lost to an isolate that writes without having seen it", async () => {
    const { places, limiters } = placesWith(fixedWindow("10/1h"), 3);
    const [admin, busy, third] = limiters as [RateLimiter, RateLimiter, RateLimiter];
    await asks(busy, 9);
    now += 1500;
    await admin.reset("k");
    now += 1500;
    await busy.consume("k");
    for (let second = 0; second < 200; second++) {
      now += 1000;
      await admin.peek("k", 0);
      await busy.peek("k", 0);
    }
    expect(await left(busy)).toBe(10);
    (places[2] as Place).forgetCache();
    expect(await left(third)).toBe(10);
  });

  it("is forgotten itself when nobody could count what was before it", async () => {
    const { limiters } = placesWith(fixedWindow("5/1h"), 2);
    const [a, b] = limiters as [RateLimiter, RateLimiter];
    await a.reset("k");
    now += 86_400_000;
    expect(await asks(b, 10)).toBe(5);
    now += 1500;
    await b.consume("k", 0);
    now += CACHED_MS + 2000;
    expect(await asks(a, 10)).toBe(0);
    now += CACHED_MS + 2000;
    expect(await asks(b, 10)).toBe(0);
  });

  it("is refused when it can't be written", async () => {
    const { places, limiters } = placesWith(fixedWindow("5/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    (places[0] as Place).refuse = true;
    await expect(limiter.reset("k")).rejects.toThrow(/429/);
  });

  it("is taken over by an isolate that is busy, when it has read it", async () => {
    const { limiters } = placesWith(fixedWindow("100/1h"), 2);
    const [busy, admin] = limiters as [RateLimiter, RateLimiter];
    for (let second = 0; second < 50; second++) {
      await busy.consume("k", 2);
      now += 1000;
    }
    expect(await left(busy)).toBe(0);
    await admin.reset("k");
    now += CACHED_MS + 2000;
    expect(await left(busy)).toBe(100);
  });
});

describe("reads and writes", () => {
  it("are few: others go on with what is known while one reads anew", async () => {
    const { places, limiters } = placesWith(fixedWindow("1000/1h"), 1);
    const [limiter] = limiters as [RateLimiter];
    await limiter.consume("k");
    now += 1500;
    await Promise.all(Array.from({ length: 50 }, () => limiter.consume("k")));
    expect((places[0] as Place).reads).toBe(2);
    expect((places[0] as Place).writes).toBe(2);
  });

  it("that fail are told once, and what was decided stands", async () => {
    const place = new Place(new Central());
    const put = vi.spyOn(place, "put").mockRejectedValue(new Error("KV PUT failed: 403 daily limit"));
    const told: string[] = [];
    const limiter = kvRateLimiter(place, fixedWindow("5/1h"), {
      waitUntil: () => {},
      onEvent: (event) => void told.push(event.type === "warning" ? event.message : event.type),
      localDenialMs: 0,
    });
    let admitted = 0;
    for (let i = 0; i < 20; i++) {
      const decision = await limiter.consume("k");
      expect(decision.degraded).toBeUndefined();
      if (decision.allowed) admitted++;
      now += 700;
    }
    expect(admitted).toBe(5);
    expect(told).toEqual([expect.stringMatching(/KV takes no writes.*daily limit/)]);
    put.mockRestore();
  });

  it("refuse a waitUntil that can't be called by itself", async () => {
    const ctx = {
      mine: true,
      waitUntil(this: { mine: boolean } | undefined, _promise: Promise<unknown>) {
        if (!this?.mine) throw new TypeError("Illegal invocation");
      },
    };
    const { waitUntil } = ctx;
    const limiter = kvRateLimiter(new Place(new Central()), fixedWindow("5/1h"), { waitUntil: waitUntil as never });
    await expect(limiter.consume("k")).rejects.toThrow(/waitUntil: expected a function that can be called by itself/);
  });
});
