/** Policies as text: `"100/m"`, `"10/s burst 50"`, `"1000/d fixed"`. */
import { optionError } from "./errors.ts";
import type { Policy } from "./policy.ts";
import { parseRate, type RateText } from "./rate.ts";

/** A policy as text: a rate, alone or with a word that chooses the algorithm. */
export type PolicyText =
  | RateText
  | `${RateText} ${"burst" | "queue"} ${number}`
  | `${RateText} ${"fixed" | "sliding" | "log"}`;

const WINDOWS = { fixed: "fixed-window", sliding: "sliding-window", log: "sliding-log" } as const;
const FORMS = '"100/m", "10/s burst 50", "10/s queue 20", "1000/d fixed", "100/m sliding" or "5/15m log"';

/**
 * Parses a policy from text, such as an environment variable: `"100/m"` is a token bucket with a capacity of 100;
 * `burst`, `queue`, `fixed`, `sliding` and `log` choose another capacity or algorithm.
 */
export function parsePolicy(text: string): Policy {
  return policyFromText("policy", text);
}

/** The same for text that was given as `option`. */
export function policyFromText(option: string, text: unknown): Policy {
  const [rate, word, size, ...more] = typeof text === "string" ? text.split(" ") : [];
  if (word === undefined) {
    const { count } = parseRate(option, text);
    return { algorithm: "token-bucket", capacity: count, tokensPerSecond: rate as RateText };
  }
  const isBucket = word === "burst" || word === "queue";
  const isKnown = isBucket ? /^\d{1,16}$/.test(size ?? "") : Object.hasOwn(WINDOWS, word) && size === undefined;
  if (!isKnown || more.length > 0 || !/^\d/.test(rate as string) || !rate?.includes("/")) {
    // Report unknown text as an invalid rate.
    if (!/^(burst|queue|fixed|sliding|log)$/.test(word)) parseRate(option, text);
    throw optionError("invalid-option", option, `a policy such as ${FORMS}`, text);
  }
  const { count, windowMs } = parseRate(option, rate);
  if (word === "burst") {
    return { algorithm: "token-bucket", capacity: Number(size), tokensPerSecond: rate as RateText };
  }
  if (word === "queue") {
    return { algorithm: "leaky-bucket", capacity: Number(size), leaksPerSecond: rate as RateText };
  }
  return { algorithm: WINDOWS[word as keyof typeof WINDOWS], limit: count, windowMs };
}
