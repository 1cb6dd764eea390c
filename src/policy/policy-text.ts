/** Parses policies from text: `"100/m"`, `"10/s burst 50"`, `"1000/d fixed"`. */
import { optionError, SluiceError, show } from "../base/errors.ts";
import { parseRate, type RateText } from "../base/rate.ts";
import type { Policy } from "../core/policy.ts";
import { type Algorithms, rates } from "./rates.ts";
import { withText } from "./written-text.ts";

const FORMS = '"100/m", "10/s burst 50", "10/s queue 20", "1000/d fixed", "100/m sliding" or "5/15m log"';

/**
 * Parses a policy from text, such as an environment variable. `"100/m"` is a token bucket with a capacity of 100;
 * `burst`, `queue`, `fixed`, `sliding` and `log` choose another capacity or algorithm.
 */
export function parsePolicy(text: string): Policy {
  return policyFromText("policy", text);
}

/** Parses the text of `option`, which may name one of these algorithms. */
export function policyFromText(option: string, text: unknown, known: Algorithms = rates): Policy {
  const [rate, word, ...rest] = typeof text === "string" ? text.split(" ") : [];
  if (word === undefined) {
    const { count } = parseRate(option, text);
    return withText({ algorithm: "token-bucket", capacity: count, tokensPerSecond: rate as RateText }, rate as string);
  }
  const form = Object.values(known).find(({ form }) => form.word === word)?.form;
  if (!form && word === "concurrent" && /^\d+$/.test(rate as string)) throw notInCode(option, text as string);
  // Report unknown text as an invalid rate.
  if (!form) parseRate(option, text);
  const policy = form?.fromText(option, rate as string, rest);
  if (policy) return withText(policy, text as string);
  throw optionError("invalid-option", option, `a policy such as ${FORMS}`, text);
}

/** A concurrency limit as text, which only rules files have: in code, an imported function brings the algorithm. */
function notInCode(option: string, text: string): SluiceError {
  const [limit, , name, value] = text.split(" ");
  const call = value === undefined ? `concurrency(${limit})` : `concurrency(${limit}, { ${name}Ms: "${value}" })`;
  const message = `${option} ${show(text)} is text for rules files. In code, write ${call}.`;
  return new SluiceError("invalid-option", message, { option, expected: call, received: text });
}
