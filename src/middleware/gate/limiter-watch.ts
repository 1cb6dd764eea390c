/** Detects a `limiter` function that creates a limiter for every request: with an empty store each, nothing is limited. */
import type { WarningCode } from "../../core/warnings.ts";
import type { ComposableLimiter } from "../../limiter/limiter-part.ts";
import { keyHash } from "./key-hash.ts";
import type { LimiterLike } from "./options.ts";

/** A limiter per tenant or plan is new once for each of them; the same key gets a new one only so often. */
const MAX_NEW_IN_ROW = 20;
const SAMPLE = 10_000;
const MAX_KEYS = 1000;

/** Warns once. Only limiters in memory are watched: those on a shared store find their buckets again. */
export function limiterWatch<Call>(
  warn: (message: string, call: Call, code: WarningCode) => void,
): (limiter: LimiterLike, key: string, call: Call) => void {
  const seen = new WeakSet<object>();
  const newInRow = new Map<number, number>();
  let left = SAMPLE;
  return (limiter, key, call) => {
    if (left === 0 || !limiter.consumeSync || typeof key !== "string") return;
    left--;
    // A combination may be made for a request from limiters that last.
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
      warn(message, call, "SLUICE_MISUSE");
    }
    if (left === 0) newInRow.clear();
  };
}
