/** How the policy of an algorithm is written: its options, its text and the numbers they stand for. */

import { optionError } from "../base/errors.ts";
import { checkWhole } from "../base/options.ts";
import {
  durationText,
  greatestDivisor,
  parseDuration,
  parseRate,
  parseRatio,
  type RateText,
  rateText,
} from "../base/rate.ts";
import type { PolicyForm } from "../core/compiled-policy.ts";
import type { AlgorithmName, Policy } from "../core/policy.ts";

const MAX_EXACT = Number.MAX_SAFE_INTEGER;
/** The latest end of a window is two windows after 2^52, the last instant that a clock may return. */
const MAX_WINDOW_MS = 2 ** 51;
const MAX_FILL_MS = 2 ** 52;

/** The form of bucket policies: a capacity and a rate. */
export function bucketForm(
  algorithm: "token-bucket" | "leaky-bucket",
  rateOption: "tokensPerSecond" | "leaksPerSecond",
  word: string,
): PolicyForm {
  const policyFrom = (capacity: number, rate: RateText) =>
    ({ algorithm, capacity, [rateOption]: rate }) as unknown as Policy;
  return {
    options: ["capacity", rateOption],
    word,

    compile(policy) {
      const { capacity, [rateOption]: rate } = policy;
      const limit = checkWhole("capacity", capacity, 1, MAX_EXACT);
      const { p, q } = parseRatio(rateOption, rate);
      if (p > 2 ** 32 || q > MAX_EXACT) {
        throw optionError("out-of-range", rateOption, "a ratio of smaller whole numbers", rate);
      }
      const largest = Math.min(Math.floor(MAX_EXACT / q), Math.floor((MAX_FILL_MS / q) * p));
      if (limit > largest || limit * q < p) {
        throw optionError(
          "out-of-range",
          "capacity",
          `a number from ${Math.ceil(p / q)} to ${largest} at this rate`,
          capacity,
        );
      }
      return { limit, windowMs: Math.ceil((limit * q) / p), unitsPerToken: q, unitsPerMs: p };
    },

    text: ({ limit, unitsPerMs, unitsPerToken }) => `${rateText(unitsPerMs, unitsPerToken)} ${word} ${limit}`,
    shortText: ({ limit, unitsPerMs, unitsPerToken }) => `${rateText(unitsPerMs, unitsPerToken)},${limit}`,

    // The exact fill time: rounded to milliseconds, two different ones could look the same.
    timeText({ limit, unitsPerMs, unitsPerToken }) {
      const capacityUnits = limit * unitsPerToken;
      const common = greatestDivisor(capacityUnits, unitsPerMs);
      if (unitsPerMs === common) return durationText(capacityUnits / common);
      return `${capacityUnits / common}/${unitsPerMs / common}ms`;
    },

    fromText(option, rate, [size, ...more]) {
      const isSize = size !== undefined && /^\d{1,16}$/.test(size) && more.length === 0;
      return rateFrom(option, rate) && isSize ? policyFrom(Number(size), rate as RateText) : undefined;
    },

    // A ratio, because a number would round the rate.
    fromNumbers: ({ limit, unitsPerMs, unitsPerToken }) => ({
      algorithm,
      capacity: limit,
      [rateOption]: `${unitsPerMs}/${unitsPerToken}ms`,
    }),
  };
}

/** Parses the rate before the word. `undefined`: it is not one. */
function rateFrom(option: string, text: string): { count: number; windowMs: number } | undefined {
  return /^\d.*\//.test(text) ? parseRate(option, text) : undefined;
}

/** The differences between the forms of windows. */
interface WindowFormOptions {
  /** The largest limit for a window. Default: any exact number. */
  maxLimit?(windowMs: number): number;
  /** Units per cost of 1. Default: 1. */
  unitsPerToken?(windowMs: number): number;
}

/** The form of window policies: a limit and a window. */
export function windowForm(algorithm: AlgorithmName, word: string, options: WindowFormOptions = {}): PolicyForm {
  const { maxLimit = () => MAX_EXACT, unitsPerToken = () => 1 } = options;
  const policyFrom = (limit: number, windowMs: number) => ({ algorithm, limit, windowMs }) as Policy;
  return {
    options: ["limit", "windowMs"],
    word,
    compile(policy) {
      const windowMs = checkWhole("windowMs", parseDuration("windowMs", policy.windowMs), 1, MAX_WINDOW_MS);
      const limit = checkWhole("limit", policy.limit, 1, maxLimit(windowMs));
      return { limit, windowMs, unitsPerToken: unitsPerToken(windowMs), unitsPerMs: 0 };
    },
    text: ({ limit, windowMs }) => `${limit}/${durationText(windowMs)} ${word}`,
    shortText: ({ limit, windowMs }) => `${limit}/${durationText(windowMs)}`,
    timeText: ({ windowMs }) => durationText(windowMs),
    fromText(option, first, rest) {
      const rate = rateFrom(option, first);
      return rate && rest.length === 0 ? policyFrom(rate.count, rate.windowMs) : undefined;
    },
    fromNumbers: ({ limit, windowMs }) => ({ algorithm, limit, windowMs }),
  };
}
