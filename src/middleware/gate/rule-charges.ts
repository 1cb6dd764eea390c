/** Finds the charges of a request for the option `rules`. */
import { optionError } from "../../base/errors.ts";
import { type AbuseAbilities, REQUEST_RULES, type RequestRules } from "../../http/request-charges.ts";
import type { Keys } from "./keys.ts";
import type { RateLimitOptions } from "./options.ts";
import type { ChargesFor } from "./request-charges.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** Connects the rules with a middleware. They check the options that concern them. */
export function ruleCharges<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  keys: Keys<Args>,
  reader: RequestReader<Args>,
  abuse: AbuseAbilities | undefined,
): ChargesFor<Args> {
  const { parts } = keys;
  const find = (options.rules as RequestRules)[REQUEST_RULES].mount({ options, reader, parts, abuse });
  return (args, screened) => find(args, screened?.values);
}

/** Throws if the value is not a rule set. */
export function checkRules(rules: unknown): void {
  if (typeof rules === "object" && rules !== null && REQUEST_RULES in rules) return;
  throw optionError("invalid-option", "rules", "a rule set made by defineRules() or loadRules()", rules);
}
