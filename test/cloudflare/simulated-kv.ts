/** Workers KV as it behaves in production and not locally: a cache per location, late and rejected writes. */
import type { Policy, RateLimiter } from "sluice";
import { type KVNamespaceLike, kvRateLimiter } from "sluice/cloudflare";
import { afterEach, beforeEach, vi } from "vitest";

/** How long a location returns a value that it has read. */
export const CACHED_MS = 60_000;

let now = 0;

/** Replaces both clocks of each test by one that only `advance` moves. */
export function useFakeTime(): void {
  beforeEach(() => {
    // The middle of a day and of an hour.
    now = 1_790_000_000_000 - (1_790_000_000_000 % 86_400_000) + 43_200_000 + 1_800_000;
    vi.spyOn(Date, "now").mockImplementation(() => now);
    vi.spyOn(performance, "now").mockImplementation(() => now - 1_780_000_000_000);
  });
  afterEach(() => vi.restoreAllMocks());
}

export function advance(ms: number): void {
  now += ms;
}

/** The values that all locations share. */
export class KVDatabase {
  readonly values: Map<string, string> = new Map();
  readonly writtenAt: Map<string, number> = new Map();
}

/** One location. It caches a value for a minute after it has read or written it. */
export class KVLocation implements KVNamespaceLike {
  rejectsWrites = false;
  /** Whether even its own writes show up a minute late: KV is eventually consistent. */
  seesOwnWritesLate = false;
  reads = 0;
  writes = 0;
  private readonly database: KVDatabase;
  private readonly cache: Map<string, { value: string | null; until: number }> = new Map();

  constructor(database: KVDatabase) {
    this.database = database;
  }

  async get(key: string): Promise<string | null> {
    this.reads++;
    const cached = this.cache.get(key);
    if (cached && now < cached.until) return cached.value;
    const value = this.database.values.get(key) ?? null;
    this.cache.set(key, { value, until: now + CACHED_MS });
    return value;
  }

  async put(key: string, value: string): Promise<void> {
    const { values, writtenAt } = this.database;
    if (this.rejectsWrites || now - (writtenAt.get(key) ?? 0) < 1000) throw new Error("429 Too Many Requests");
    this.writes++;
    writtenAt.set(key, now);
    values.set(key, value);
    if (!this.seesOwnWritesLate) this.cache.set(key, { value, until: now + CACHED_MS });
  }

  async delete(key: string): Promise<void> {
    this.database.values.delete(key);
  }

  /** Clears the cache, as after a minute. */
  clearCache(): void {
    this.cache.clear();
  }
}

/** Creates locations of one database, with a limiter in each. */
export function inLocations(policy: Policy, count: number): { locations: KVLocation[]; limiters: RateLimiter[] } {
  const database = new KVDatabase();
  const locations = Array.from({ length: count }, () => new KVLocation(database));
  return {
    locations,
    limiters: locations.map((kv) => kvRateLimiter(kv, policy, { localDenialMs: 0, onStoreError: "throw" })),
  };
}

export async function remainingOf(limiter: RateLimiter): Promise<number> {
  return (await limiter.peek("k", 0)).remaining;
}

/** Calls `consume` so many times, one after the other, and returns how many calls were allowed. */
export async function admittedOf(limiter: RateLimiter, calls: number): Promise<number> {
  let admitted = 0;
  for (let i = 0; i < calls; i++) if ((await limiter.consume("k")).allowed) admitted++;
  return admitted;
}
