/**
 * Detects keys that do not distinguish clients: keys that are new with almost every request, so nothing is limited and
 * each one takes memory, and keys without their id, such as `user:undefined`, so all clients share a bucket.
 */
import type { WarningCode } from "../base/warnings.ts";
import { keyHash } from "./key-hash.ts";

/** How many keys are compared, and how many of them may be new. */
const SAMPLE = 1000;
const MAX_NEW = 900;
/** The same for requests of an application that does not follow events, where a warning must not be noise. */
const LONG_SAMPLE = 10_000;
const MAX_NEW_IN_LONG = 9500;
/** Keys without their id in a sample. One may be the name of a user; two show while an app is tried out by hand. */
const MAX_MISSING = 2;
/** After the first sample, one key in 17 is searched. A prime, so requests that alternate are sampled alike. */
const STRIDE = 17;
/** A value that a template turned into text, as a whole segment of a key: `user:undefined`, `null/7`, `[object Object]`. */
const MISSING =
  /undefined(?![A-Za-z0-9])|(?<![A-Za-z0-9])(?:null|NaN)(?![A-Za-z0-9])|\[object (?:Object|Undefined|Null|Promise)\]/;

type WarnOnce<Args> = (message: string, args: Args, code?: WarningCode) => void;
type Watch<Args> = (key: string, args: Args) => void;

/** What the keys are of, and how soon new ones are reported. */
interface WatchOptions {
  /** The name of what is charged, and the call to move. */
  readonly of: "requests" | "messages";
  /** New keys may also mean many clients. `true` reports them after fewer keys. */
  readonly isEager: boolean;
}

/** Warns once about each problem. */
export function watchKeys<Args>(warn: WarnOnce<Args>, { of, isEager }: WatchOptions): Watch<Args> {
  const watchMissing = missingIds(warn, of);
  const watchCount = isEager ? newKeys(warn, of, SAMPLE, MAX_NEW) : newKeys(warn, of, LONG_SAMPLE, MAX_NEW_IN_LONG);
  return (key, args) => {
    // A key that is not a string is rejected by the limiter.
    if (typeof key !== "string") return;
    watchMissing(key, args);
    watchCount(key, args);
  };
}

const ADVICE = {
  requests: "Run rateLimit after authentication, or return another key for anonymous clients.",
  messages: "Set the data of the connection before its first message, or return another key for anonymous clients.",
};

function missingIds<Args>(warn: WarnOnce<Args>, of: WatchOptions["of"]): Watch<Args> {
  let [requests, checked, missing] = [0, 0, 0];
  let isReported = false;
  return (key, args) => {
    if (isReported || (++requests > SAMPLE && requests % STRIDE !== 0)) return;
    checked++;
    if (MISSING.test(key) && ++missing >= MAX_MISSING) {
      isReported = true;
      const message = `${missing} of the last ${checked} keys contained "undefined", "null", "NaN" or "[object Object]" in place of an id, so these ${of} share one bucket. ${ADVICE[of]}`;
      warn(message, args, "SLUICE_MISUSE");
    }
    if (checked === SAMPLE) [checked, missing] = [0, 0];
  };
}

function newKeys<Args>(warn: WarnOnce<Args>, of: WatchOptions["of"], sample: number, maxNew: number): Watch<Args> {
  const seen = new Set<number>();
  let count = 0;
  let isEnded = false;
  return (key, args) => {
    if (isEnded) return;
    seen.add(keyHash(key));
    if (++count < sample) return;
    if (seen.size > maxNew) {
      const message = `${seen.size} of the last ${sample} ${of} had a new key, so they are hardly limited. Does key contain a value that changes with every one?`;
      warn(message, args, "SLUICE_MISUSE");
    }
    // A long sample is taken once: it costs more.
    isEnded = seen.size > maxNew || sample === LONG_SAMPLE;
    seen.clear();
    count = 0;
  };
}
