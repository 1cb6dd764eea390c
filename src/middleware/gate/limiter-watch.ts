/** Detects a `limiter` function that creates a limiter per request: each has an empty store, so nothing is limited. */
import type { WarningCode } from "../../core/warnings.ts";
import type { ComposableLimiter } from "../../limiter/limiter-part.ts";
import { keyHash } from "./key-hash.ts";
import type { LimiterLike } from "./options.ts";

/** New limiters in a row for one key. A limiter per tenant or plan is new only once for each of them. */
const MAX_NEW_IN_ROW = 20;
const SAMPLE = 10_000;
const MAX_KEYS = 1000;

/** Called with the limiter that a function returned for a request. */
export type WatchLimiter<Args> = (limiter: LimiterLike, key: string, args: Args) => void;

/** Warns once. Only limiters in memory are watched: those on a shared store use the same buckets. */
export function limiterWatch<Args>(warn: (message: string, args: Args, code: WarningCode) => void): WatchLimiter<Args> {
  const seen = new WeakSet<object>();
  const newInRow = new Map<number, number>();
  let left = SAMPLE;
  return (limiter, key, args) => {
    if (left === 0 || !limiter.consumeSync || typeof key !== "string") return;
    left--;
    // A combination may be created per request from limiters that are not.
    const [part] = (limiter as Partial<ComposableLimiter>).parts?.() ?? [];
    if (!part) return;
    const { store } = part.port;
    const hash = keyHash(key);
    const count = seen.has(store) ? 0 : (newInRow.get(hash) ?? 0) + 1;
    seen.add(store);
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
