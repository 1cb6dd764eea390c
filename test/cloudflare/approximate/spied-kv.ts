/** Helpers for the tasks: a KV namespace per isolate that records its calls, and a clock in mid-window. */
import { type Decision, fixedWindow, type Policy, type RateLimiter } from "sluice";
import type { DurableObjectNamespaceLike, KVNamespaceLike, RateLimitBinding } from "sluice/cloudflare";

export interface Env {
  KV: KVNamespaceLike;
  RL: RateLimitBinding;
  OBJECTS: DurableObjectNamespaceLike;
  SERVICE: object;
}

export const FIVE: Policy = fixedWindow("5/1h");

/** The same KV as in another isolate: a store on it shares no memory with stores on others. */
export class SpiedKV implements KVNamespaceLike {
  reads = 0;
  writes: { expirationTtl: number; value: string }[] = [];
  /** Awaited by reads and writes. */
  beforeRead: () => Promise<unknown> = async () => {};
  beforeWrite: () => Promise<unknown> = async () => {};
  /** Returned by reads if it is set. */
  stale: string | null | undefined;
  private readonly kv: KVNamespaceLike;

  constructor(kv: KVNamespaceLike) {
    this.kv = kv;
  }

  async get(key: string): Promise<string | null> {
    this.reads++;
    const value = await this.kv.get(key);
    await this.beforeRead();
    return this.stale === undefined ? value : this.stale;
  }

  async put(key: string, value: string, options: { expirationTtl: number }): Promise<void> {
    await this.beforeWrite();
    this.writes.push({ ...options, value });
    await this.kv.put(key, value, options);
  }

  delete(key: string): Promise<void> {
    return this.kv.delete(key);
  }
}

/** Returns a function whose promises resolve once it was called `count` times. */
export function barrier(count: number): () => Promise<void> {
  let [calls, release] = [0, () => {}];
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  return () => {
    if (++calls >= count) release();
    return released;
  };
}

export const sleep = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms));

export const { now: realNow } = Date;

/** Moves the clock to the middle of an hour, because a window must not end during a test. */
export function startMidWindow(): void {
  const start = realNow();
  Date.now = () => start - (start % 3_600_000) + 1_800_000 + (realNow() - start);
}

let keys = 0;

/** Returns an unused key. */
export function freshKey(): string {
  return `${realNow()} ${keys++}`;
}

export function countAllowed(decisions: readonly Decision[]): number {
  return decisions.filter(({ allowed }) => allowed).length;
}

export async function remainingOf(limiter: RateLimiter, key: string): Promise<number> {
  return (await limiter.peek(key, 0)).remaining;
}
