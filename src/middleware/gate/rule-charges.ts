/** Finds the charges of a request for the option `rules`. */
import type { Decision } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import { checkOptions } from "../../core/options.ts";
import { REQUEST_RULES, type RequestRules, type RuleOutcome } from "../../http/request-charges.ts";
import type { Keys } from "./keys.ts";
import type { RateLimitOptions } from "./options.ts";
import type { ChargesFor } from "./request-charges.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** Connects the rules with a middleware. Throws if a fact has no function. */
export function ruleCharges<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  rules: RequestRules,
  keys: Keys<Args>,
  reader: RequestReader<Args>,
): ChargesFor<Args> {
  const facts: Readonly<Record<string, ((...args: Args) => unknown) | undefined>> = { ...options.facts };
  const mounted = rules[REQUEST_RULES];
  mounted.mount({ facts: Object.keys(facts) });
  return (args) =>
    mounted.chargesFor({
      method: reader.method(args),
      path: reader.path(args),
      header: (name) => reader.header(args, name),
      ...keys.context(args),
      fact: (name) => facts[name]?.(...args),
    });
}

/** Throws for rules and facts that can't work. */
export function checkRules<Args extends HandlerArgs>({ rules, facts }: RateLimitOptions<Args, unknown>): void {
  if (typeof rules !== "object" || rules === null || !(REQUEST_RULES in rules)) {
    throw optionError("invalid-option", "rules", "a rule set made by defineRules() or loadRules()", rules);
  }
  if (facts === undefined) return;
  checkOptions("facts", facts, Object.keys(facts));
  for (const [name, fact] of Object.entries(facts)) {
    if (typeof fact !== "function") throw optionError("invalid-option", `facts.${name}`, "a function", fact);
  }
}

/** Adds the rule of a request to its decision, for the handler. */
export function describeRules(rules: RuleOutcome, decision: Decision): void {
  const isFlagged = rules.counted.some(({ mode, decision }) => mode === "flag" && !decision.allowed);
  Object.assign(decision, { rule: rules.ruleOf(decision) }, isFlagged && { limited: true });
}
