/**
 * Detects keys that do not distinguish clients: keys that are new with almost every request, so nothing is limited and
 * each one takes memory, and keys without their id, such as `user:undefined`, so all clients share a bucket.
 */
import type { WarningCode } from "../../core/warnings.ts";
import { keyHash } from "./key-hash.ts";

const SAMPLE = 1000;
const MAX_NEW = 900;
const MAX_MISSING = SAMPLE / 2;
/** Warns while an app is tried out by hand. One such key may be the name of a user. */
const MAX_MISSING_IN_ROW = 5;
/** After the first sample, one of so many keys is searched. A prime, so requests that alternate are sampled alike. */
const STRIDE = 17;
/** A value that a template turned into text, as a whole segment of a key: `user:undefined`, `null/7`, `[object Object]`. */
const MISSING =
  /undefined(?![A-Za-z0-9])|(?<![A-Za-z0-9])(?:null|NaN)(?![A-Za-z0-9])|\[object (?:Object|Undefined|Null|Promise)\]/;

type WarnOnce<Args> = (message: string, args: Args, code?: WarningCode) => void;
type Watch<Args> = (key: string, args: Args) => void;

/** Warns once about each problem. New keys may also mean many clients, so they are reported only with `watchNew`. */
export function watchKeys<Args>(warn: WarnOnce<Args>, watchNew: boolean): Watch<Args> {
  const watchMissing = missingIds(warn);
  const watchCount = watchNew ? newKeys(warn) : undefined;
  return (key, args) => {
    // A key that is not a string is rejected by the limiter.
    if (typeof key !== "string") return;
    watchMissing(key, args);
    watchCount?.(key, args);
  };
}

function missingIds<Args>(warn: WarnOnce<Args>): Watch<Args> {
  let [requests, checked, missing, inRow] = [0, 0, 0, 0];
  let isReported = false;
  return (key, args) => {
    if (isReported || (++requests > SAMPLE && requests % STRIDE !== 0)) return;
    checked++;
    if (!MISSING.test(key)) inRow = 0;
    else {
      missing++;
      if (++inRow >= MAX_MISSING_IN_ROW || missing > MAX_MISSING) {
        isReported = true;
        const message = `${missing} of the last ${checked} keys contained "undefined", "null", "NaN" or "[object Object]" in place of an id, so these requests share one bucket. Run rateLimit after authentication, or return another key for anonymous clients.`;
        warn(message, args, "SLUICE_MISUSE");
      }
    }
    if (checked === SAMPLE) [checked, missing] = [0, 0];
  };
}

function newKeys<Args>(warn: WarnOnce<Args>): Watch<Args> {
  const seen = new Set<number>();
  let count = 0;
  let isReported = false;
  return (key, args) => {
    if (isReported) return;
    seen.add(keyHash(key));
    if (++count < SAMPLE) return;
    if (seen.size > MAX_NEW) {
      isReported = true;
      warn(`${seen.size} of the last ${SAMPLE} requests had a new key. Does key contain a per-request value?`, args);
    }
    seen.clear();
    count = 0;
  };
}
