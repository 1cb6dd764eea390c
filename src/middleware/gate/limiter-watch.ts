/** Detects a `limiter` function that creates a limiter per request: each has an empty store, so nothing is limited. */

import type { WarningCode } from "../../base/warnings.ts";
import type { ComposableLimiter } from "../../core/part-charges.ts";
import { keyHash } from "../../http/key-hash.ts";
import { memoryStoreCount } from "../../memory/memory-store.ts";
import type { LimiterLike } from "./options.ts";

/** New limiters in a row for one key and policy. One per tenant or plan is new only once for each of them. */
const MAX_NEW_IN_ROW = 2;
const SAMPLE = 10_000;
const MAX_KEYS = 1000;

/** Called with the limiter that a function returned for a request. */
export type WatchLimiter<Args> = (limiter: LimiterLike, key: string, args: Args) => void;

/** Warns once. Only limiters in memory are watched: those on a shared store use the same buckets. */
export function limiterWatch<Args>(warn: (message: string, args: Args, code: WarningCode) => void): WatchLimiter<Args> {
  const newInRow = new Map<number, number>();
  let left = SAMPLE;
  let known = memoryStoreCount();
  return (limiter, key, args) => {
    if (left === 0 || !limiter.consumeSync || typeof key !== "string") return;
    left--;
    // A combination may be created per request from limiters that are not.
    const [part] = (limiter as Partial<ComposableLimiter>).parts?.() ?? [];
    const { serial } = (part?.engine.store ?? {}) as { readonly serial?: number };
    // Created since the last request. Limiters of routes and plans exist before the first one.
    const isNew = serial !== undefined && serial > known;
    known = memoryStoreCount();
    if (!part) return;
    const hash = keyHash(`${part.policy.id}\n${key}`);
    const count = isNew ? (newInRow.get(hash) ?? 0) + 1 : 0;
    if (count === 0) newInRow.delete(hash);
    else if (newInRow.has(hash) || newInRow.size < MAX_KEYS) newInRow.set(hash, count);
    if (count >= MAX_NEW_IN_ROW) {
      left = 0;
      const message = `The limiter function returned ${count} new limiters in a row for one key, each with an empty memory store, so nothing is limited. Create limiters once, outside of the function.`;
      warn(message, args, "SLUICE_MISUSE");
    }
    if (left === 0) newInRow.clear();
  };
}
