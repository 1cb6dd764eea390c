/** Parses policies from text: `"100/m"`, `"10/s burst 50"`, `"1000/d fixed"`, `"5 concurrent"`. */
import { optionError } from "../core/errors.ts";
import type { Policy } from "../core/policy.ts";
import { parseRate, type RateText } from "../core/rate.ts";
import { algorithms } from "./algorithms.ts";

const FORMS =
  '"100/m", "10/s burst 50", "10/s queue 20", "1000/d fixed", "100/m sliding", "5/15m log" or "5 concurrent lease 30s"';

/**
 * Parses a policy from text, such as an environment variable. `"100/m"` is a token bucket with a capacity of 100;
 * `burst`, `queue`, `fixed`, `sliding`, `log` and `concurrent` choose another capacity or algorithm.
 */
export function parsePolicy(text: string): Policy {
  return policyFromText("policy", text);
}

/** Parses the text of `option`. */
export function policyFromText(option: string, text: unknown): Policy {
  const [rate, word, ...rest] = typeof text === "string" ? text.split(" ") : [];
  if (word === undefined) {
    const { count } = parseRate(option, text);
    return { algorithm: "token-bucket", capacity: count, tokensPerSecond: rate as RateText };
  }
  const form = Object.values(algorithms).find(({ form }) => form.word === word)?.form;
  // Report unknown text as an invalid rate.
  if (!form) parseRate(option, text);
  const policy = form?.fromText(option, rate as string, rest);
  if (policy) return policy;
  throw optionError("invalid-option", option, `a policy such as ${FORMS}`, text);
}
