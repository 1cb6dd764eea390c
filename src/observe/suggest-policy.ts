/** Suggests a policy from recorded traffic. It suggests and changes nothing: a person decides. */
import { optionError } from "../base/errors.ts";
import { hmacTag } from "../base/hmac-tag.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import { type Duration, durationText, parseDuration } from "../base/rate.ts";
import type { PolicyText } from "../policy/text-type.ts";
import { candidatePolicies } from "./candidate-policies.ts";
import { keyRates, rankOf } from "./key-rates.ts";
import { readTraffic, type Traffic, type TrafficSample } from "./recorded-traffic.ts";
import { replay } from "./replay.ts";

/** Options of `suggestPolicy`. */
export interface SuggestOptions {
  /** Refill rate as a multiple of the measured rate, from 0.1 to 1000. Default: 2. */
  headroom?: number;
  /** Smallest and largest capacity, as time to refill. Default: `["5s", "10s"]`. */
  burst?: readonly [Duration, Duration];
  /** Which key to size for: the busiest, or a quantile over keys, such as 0.95. Default: `"busiest"`. */
  keyQuantile?: "busiest" | number;
  /** Width of the time bins in ms, up to a day. Default: 1000. */
  binMs?: number;
}

/** The result of `suggestPolicy`. */
export interface Suggestion {
  /** The suggested policy; missing if there is too little data. */
  readonly suggested?: PolicyText;
  /** One sentence, such as "key 9f3a01bc made 8/s at p99". */
  readonly reason: string;
  /** Result of replaying the samples against the smallest, the suggested and the largest capacity. */
  readonly candidates: readonly {
    /** The policy. */
    readonly policy: PolicyText;
    /** Requests that it would have denied. */
    readonly denied: number;
    /** The same as a share of all requests, from 0 to 1. */
    readonly deniedShare: number;
    /** Keys that would have had a request denied. */
    readonly keysDenied: number;
  }[];
  /** The data behind it. */
  readonly evidence: {
    /** Number of samples. */
    readonly requests: number;
    /** Number of different keys. */
    readonly keys: number;
    /** Days from the first sample to the last, to one decimal place. */
    readonly days: number;
    /** Median cost per active bin of the key that the policy is sized for. */
    readonly p50: number;
    /** 99th percentile of the same. */
    readonly p99: number;
    /** Maximum of the same. */
    readonly max: number;
  };
  /** Reasons for caution, such as "2.1 days of 7" or "one key is 61% of all requests". */
  readonly warnings: readonly string[];
}

const DAY_MS = 86_400_000;
const MAX_BURST_MS = 30 * DAY_MS;
const MIN_REQUESTS = 1000;
const MIN_KEYS = 10;
const MIN_DAYS = 7;
/** With fewer values, the nearest rank of the p99 is the maximum. */
const MIN_BINS = 100;
/** March 1973. Earlier times are nearly always seconds. */
const MIN_PLAUSIBLE_TIME = 1e11;

/**
 * Suggests a policy from recorded traffic. Samples may be in any order.
 *
 * A bin is active for a key if the key used some cost in it. The policy refills `headroom` times the p99 of the cost in
 * the active bins of one key. Its capacity is in the middle of `burst`, but at least the largest bin of that key and of
 * the keys with a lower p99.
 */
export function suggestPolicy(samples: Iterable<TrafficSample>, options: SuggestOptions = {}): Suggestion {
  const { headroom, burstMs, keyQuantile, binMs } = checkSuggestOptions(options);
  const traffic = readTraffic(samples);
  const { requests, keys } = traffic;
  const rates = keyRates(traffic, binMs);
  const rank = keyQuantile === "busiest" ? rates.length - 1 : rankOf(keyQuantile, rates.length);
  const sizedFor = rates[rank];
  const { p50, p99, max } = sizedFor ?? { p50: 0, p99: 0, max: 0 };
  const days = Math.round(((traffic.lastAt - traffic.firstAt) / DAY_MS) * 10) / 10;
  const evidence = { requests, keys: keys.length, days, p50, p99, max };
  const warnings = trafficWarnings(traffic, days);
  const none = (reason: string): Suggestion => ({ reason, candidates: [], evidence, warnings });

  if (requests < MIN_REQUESTS || keys.length < MIN_KEYS) {
    return none(`${requests} requests of ${keys.length} keys are too few; record at least 1000 requests of 10 keys`);
  }
  if (!sizedFor) return none("no request has a cost");
  const tag = tagOf(keys[sizedFor.id] as string);
  const place = keyQuantile === "busiest" ? "" : `, at quantile ${keyQuantile} of ${rates.length} keys,`;
  const reason = `key ${tag}${place} made ${p99}/${durationText(binMs).replace(/^1(?=\D)/, "")} at p99`;
  const minCapacity = rates.slice(0, rank + 1).reduce((largest, rate) => Math.max(largest, rate.max), 0);
  const sized = candidatePolicies({ refill: headroom * p99, perMs: binMs, burstMs, minCapacity });
  if (!sized) return none(`${reason}, which is more than a policy can allow`);

  const candidates = sized.policies.map(({ text, compiled }) => {
    const { denied, keysDenied } = replay(traffic, compiled);
    return { policy: text, denied, deniedShare: denied / requests, keysDenied };
  });
  const { policy, denied, deniedShare, keysDenied } = candidates[sized.suggested] as (typeof candidates)[number];
  if (sizedFor.activeBins < MIN_BINS) {
    warnings.push(`key ${tag} was active in only ${sizedFor.activeBins} bins, so its p99 is its maximum`);
  }
  if (denied > 0) {
    warnings.push(`"${policy}" would have denied ${denied} requests (${percent(deniedShare)}) of ${keysDenied} keys`);
  }
  return { suggested: policy, reason, candidates, evidence, warnings };
}

function checkSuggestOptions(options: SuggestOptions) {
  checkOptions("suggestPolicy", options, ["headroom", "burst", "keyQuantile", "binMs"]);
  const { headroom = 2, burst = ["5s", "10s"], keyQuantile = "busiest", binMs = 1000 } = options;
  if (typeof headroom !== "number" || !(headroom >= 0.1 && headroom <= 1000)) {
    throw optionError("invalid-option", "headroom", "a number from 0.1 to 1000", headroom);
  }
  if (keyQuantile !== "busiest" && !(typeof keyQuantile === "number" && keyQuantile > 0 && keyQuantile <= 1)) {
    throw optionError("invalid-option", "keyQuantile", '"busiest", or a number above 0 and up to 1', keyQuantile);
  }
  return { headroom, burstMs: checkBurst(burst), keyQuantile, binMs: checkWhole("binMs", binMs, 1, DAY_MS) };
}

function checkBurst(burst: readonly [Duration, Duration]): [number, number] {
  if (!Array.isArray(burst) || burst.length !== 2) {
    throw optionError("invalid-option", "burst", 'two durations, such as ["5s", "10s"]', burst);
  }
  const [least, most] = burst.map((duration, i) =>
    checkWhole(`burst[${i}]`, parseDuration(`burst[${i}]`, duration), 1, MAX_BURST_MS),
  ) as [number, number];
  if (least <= most) return [least, most];
  throw optionError("invalid-option", "burst", "the smaller duration first, then the larger one");
}

/** Warnings that follow from the samples alone. */
function trafficWarnings({ keys, starts, requests, lastAt }: Traffic, days: number): string[] {
  const warnings: string[] = [];
  if (days < MIN_DAYS) warnings.push(`${days > 0 ? days : "less than 0.1"} days of ${MIN_DAYS}`);
  const most = keys.reduce((most, _, id) => Math.max(most, (starts[id + 1] as number) - (starts[id] as number)), 0);
  if (most * 2 > requests) warnings.push(`one key is ${Math.floor((most / requests) * 100)}% of all requests`);
  if (requests > 0 && lastAt < MIN_PLAUSIBLE_TIME) {
    warnings.push("all requests are dated before 1974; `at` is in milliseconds, not seconds");
  }
  return warnings;
}

function percent(share: number): string {
  return `${Number((share * 100).toPrecision(2))}%`;
}

let secret: string | undefined;

/** Random for each process: a tag can't be looked up in a table of hashed keys. */
function tagOf(key: string): string {
  secret ??= crypto.randomUUID();
  return hmacTag(key, secret).slice(0, 8);
}
