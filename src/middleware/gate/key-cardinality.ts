/**
 * Detects keys that do not distinguish clients: keys that are new with almost every request, so nothing is limited and
 * each one takes memory, and keys without their id, such as `user:undefined`, so all clients share a bucket.
 */
import type { WarningCode } from "../../core/warnings.ts";
import { keyHash } from "./key-hash.ts";

const SAMPLE = 1000;
const MAX_NEW = 900;
const MAX_MISSING = SAMPLE / 2;
/** Warns a small app before it has seen a whole sample. */
const MAX_MISSING_IN_ROW = 20;

/** Warns once about each problem. New keys may also mean many clients, so they are reported only with `watchNew`. */
export function watchKeys<Args>(
  warn: (message: string, args: Args, code?: WarningCode) => void,
  watchNew: boolean,
): (key: string, args: Args) => void {
  const seen = new Set<number>();
  let [watchesNew, watchesMissing] = [watchNew, true];
  let [count, missing, inRow] = [0, 0, 0];
  return (key, args) => {
    // A key that is not a string is rejected by the limiter.
    if (typeof key !== "string" || !(watchesNew || watchesMissing)) return;
    count++;
    if (watchesNew) seen.add(keyHash(key));
    if (watchesMissing) {
      const isMissing = key.endsWith("undefined") || key.endsWith("null");
      inRow = isMissing ? inRow + 1 : 0;
      missing += isMissing ? 1 : 0;
      if (inRow >= MAX_MISSING_IN_ROW || missing > MAX_MISSING) {
        watchesMissing = false;
        const message = `${missing} of the last ${count} keys ended in "undefined" or "null", so these requests share one bucket. Does key run before authentication?`;
        warn(message, args, "SLUICE_MISUSE");
      }
    }
    if (count < SAMPLE) return;
    if (seen.size > MAX_NEW) {
      watchesNew = false;
      warn(`${seen.size} of the last ${SAMPLE} requests had a new key. Does key contain a per-request value?`, args);
    }
    seen.clear();
    [count, missing] = [0, 0];
  };
}
