/** Finds the charges of a request for the option `rules`. */
import { optionError } from "../../core/errors.ts";
import { REQUEST_RULES, type RequestRules } from "../../http/request-charges.ts";
import type { Keys } from "./keys.ts";
import type { RateLimitOptions } from "./options.ts";
import type { ChargesFor } from "./request-charges.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** Connects the rules with a middleware. They check the options that concern them. */
export function ruleCharges<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  keys: Keys<Args>,
  reader: RequestReader<Args>,
): ChargesFor<Args> {
  const { parts } = keys;
  return (options.rules as RequestRules)[REQUEST_RULES].mount({ options, reader, parts });
}

/** Throws if the value is not a rule set. */
export function checkRules(rules: unknown): void {
  if (typeof rules === "object" && rules !== null && REQUEST_RULES in rules) return;
  throw optionError("invalid-option", "rules", "a rule set made by defineRules() or loadRules()", rules);
}
