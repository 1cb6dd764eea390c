/**
 * Detects a `key` that does not tell clients apart: one that is new with almost every request, so that nobody is ever
 * limited and every key costs memory, and one that lacks its id, such as `user:undefined`, so that all share a bucket.
 */
import type { WarningCode } from "../../core/warnings.ts";
import { keyHash } from "./key-hash.ts";

const SAMPLE = 1000;
const MAX_NEW = 900;
const MAX_MISSING = SAMPLE / 2;
/** A small app has to be warned too, before it has seen a whole sample. */
const MAX_MISSING_IN_ROW = 20;

/** Warns once of each problem. Many new keys may also be many clients: that is reported only if `watchNew` is set. */
export function keyWatch<Call>(
  warn: (message: string, call: Call, code?: WarningCode) => void,
  watchNew: boolean,
): (key: string, call: Call) => void {
  const seen = new Set<number>();
  let [watchesNew, watchesMissing] = [watchNew, true];
  let [count, missing, inRow] = [0, 0, 0];
  return (key, call) => {
    // A key that is no string is an error of its own.
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
        warn(message, call, "SLUICE_MISUSE");
      }
    }
    if (count < SAMPLE) return;
    if (seen.size > MAX_NEW) {
      watchesNew = false;
      warn(`${seen.size} of the last ${SAMPLE} requests had a new key. Does key contain a value of the request?`, call);
    }
    seen.clear();
    [count, missing] = [0, 0];
  };
}
