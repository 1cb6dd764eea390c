/** Helpers that create policies: `tokenBucket("10/s", { burst: 50 })`. They return plain objects. */
import { optionError, SluiceError } from "../base/errors.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import { parseRate, type RateText } from "../base/rate.ts";
import {
  type FixedWindowPolicy,
  type LeakyBucketPolicy,
  POLICY_HINTS,
  type SlidingLogPolicy,
  type SlidingWindowPolicy,
  type TokenBucketPolicy,
} from "../core/policy.ts";
import { withText } from "./written-text.ts";

/** Options beside a rate, for every algorithm. */
export interface LabelOptions {
  /** The policy's name in headers, logs and stored keys. Default: its text. */
  name?: string;
  /** Separates this policy's keys from those of the same policy elsewhere on one store. Default: none. */
  prefix?: string;
  /** Lets several policies with one name share their buckets. Default: false. */
  share?: boolean;
  /** What the cost counts, such as `tokens`: for header fields and the response to a denied request. Default: `requests`. */
  unit?: string;
}

/** Options beside the rate of a bucket. */
export interface BurstOptions extends LabelOptions {
  /** The capacity. Default: the count of the rate, so `"10/s"` has a capacity of 10. */
  burst?: number;
}

/** A policy without its algorithm. */
export type Bare<P> = Omit<P, "algorithm">;

/** Creates a token bucket policy from its numbers, or from a rate: `tokenBucket("10/s", { burst: 50 })`. */
export function tokenBucket(policy: Bare<TokenBucketPolicy>): TokenBucketPolicy;
export function tokenBucket(rate: RateText, options?: BurstOptions): TokenBucketPolicy;
export function tokenBucket(first: RateText | Bare<TokenBucketPolicy>, options?: BurstOptions): TokenBucketPolicy {
  if (typeof first !== "string") return { algorithm: "token-bucket", ...plain(first, options, "token-bucket", BUCKET) };
  const { capacity, labels } = bucketParts(first, options, "tokenBucket");
  return withText({ algorithm: "token-bucket", capacity, tokensPerSecond: first, ...labels }, textOf(first, options));
}

/** Creates a leaky bucket policy from its numbers, or from a rate: `leakyBucket("10/s", { burst: 50 })`. */
export function leakyBucket(policy: Bare<LeakyBucketPolicy>): LeakyBucketPolicy;
export function leakyBucket(rate: RateText, options?: BurstOptions): LeakyBucketPolicy;
export function leakyBucket(first: RateText | Bare<LeakyBucketPolicy>, options?: BurstOptions): LeakyBucketPolicy {
  if (typeof first !== "string") return { algorithm: "leaky-bucket", ...plain(first, options, "leaky-bucket", LEAKY) };
  const { capacity, labels } = bucketParts(first, options, "leakyBucket");
  return withText(
    { algorithm: "leaky-bucket", capacity, leaksPerSecond: first, ...labels },
    `${first} queue ${capacity}`,
  );
}

/** Creates a fixed window policy from its numbers, or from a rate: `fixedWindow("1000/h")`. */
export function fixedWindow(policy: Bare<FixedWindowPolicy>): FixedWindowPolicy;
export function fixedWindow(rate: RateText, options?: LabelOptions): FixedWindowPolicy;
export function fixedWindow(first: RateText | Bare<FixedWindowPolicy>, options?: LabelOptions): FixedWindowPolicy {
  return windowPolicy("fixed-window", "fixedWindow", first, options);
}

/** Creates a sliding window policy from its numbers, or from a rate: `slidingWindow("100/m")`. */
export function slidingWindow(policy: Bare<SlidingWindowPolicy>): SlidingWindowPolicy;
export function slidingWindow(rate: RateText, options?: LabelOptions): SlidingWindowPolicy;
export function slidingWindow(
  first: RateText | Bare<SlidingWindowPolicy>,
  options?: LabelOptions,
): SlidingWindowPolicy {
  return windowPolicy("sliding-window", "slidingWindow", first, options);
}

/** Creates a sliding log policy from its numbers, or from a rate: `slidingLog("100/m")`. */
export function slidingLog(policy: Bare<SlidingLogPolicy>): SlidingLogPolicy;
export function slidingLog(rate: RateText, options?: LabelOptions): SlidingLogPolicy;
export function slidingLog(first: RateText | Bare<SlidingLogPolicy>, options?: LabelOptions): SlidingLogPolicy {
  return windowPolicy("sliding-log", "slidingLog", first, options);
}

/** Names of `LabelOptions`. */
export const LABELS: readonly string[] = ["name", "prefix", "share", "unit"];
const BUCKET = ["capacity", "tokensPerSecond", "maxHolds"];
const LEAKY = ["capacity", "leaksPerSecond"];
const WINDOW = ["limit", "windowMs", "maxHolds"];

function bucketParts(
  rate: RateText,
  options: BurstOptions = {},
  where: string,
): { capacity: number; labels: LabelOptions } {
  checkOptions(where, options, ["burst", ...LABELS]);
  const { burst, ...labels } = options;
  const { count } = parseRate("rate", rate);
  if (burst !== undefined) checkWhole("burst", burst, 1, Number.MAX_SAFE_INTEGER);
  return { capacity: burst ?? count, labels };
}

function windowPolicy<A extends string>(
  algorithm: A,
  where: string,
  first: RateText | Bare<FixedWindowPolicy>,
  options: LabelOptions | undefined,
): Bare<FixedWindowPolicy> & { algorithm: A } {
  if (typeof first !== "string") return { algorithm, ...plain(first, options, algorithm, WINDOW) };
  checkOptions(where, options ?? {}, LABELS, { burst: "Only tokenBucket and leakyBucket allow bursts." });
  const { count, windowMs } = parseRate("rate", first);
  return { algorithm, limit: count, windowMs, ...options };
}

/** A rate as policy text. */
function textOf(rate: RateText, { burst }: BurstOptions = {}): string {
  return burst === undefined ? rate : `${rate} burst ${burst}`;
}

/** Checks a policy object. It is complete: options are only allowed after a rate. */
export function plain<P extends object>(
  policy: P,
  options: object | undefined,
  algorithm: string,
  known: readonly string[],
): P {
  if (typeof policy !== "object" || policy === null) {
    const example =
      typeof options === "string" ? `, as in "${policy}/${String(options).replace(/^1?\s+|\s/g, "")}"` : "";
    throw optionError("invalid-option", "policy", `a rate as one string${example}, or a policy object`, policy);
  }
  // Here, so the stack leads to the policy and not to the limiter that is made from it.
  checkOptions(`a ${algorithm} policy`, policy, ["algorithm", ...LABELS, ...known], POLICY_HINTS);
  if (options === undefined) return policy;
  const message = "Options are allowed only after a rate string. Put name, prefix and share into the policy object.";
  throw new SluiceError("unknown-option", message, { option: "options", expected: "a policy object alone" });
}
