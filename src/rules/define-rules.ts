/** Creates rule sets from rules in TypeScript or JSON. */
import { createRuleSet } from "./rule-set.ts";
import type { RuleSet, RulesOptions } from "./rule-set-types.ts";
import type { RulesData } from "./rules-data.ts";
import type { CheckedRules, FactsOf } from "./rules-types.ts";

/** Compiles rules written in TypeScript. The compiler checks the names of plans, budgets and facts. */
export function defineRules<const D extends RulesData>(
  data: D & CheckedRules<D>,
  options: RulesOptions = {},
): RuleSet<FactsOf<D>> {
  return createRuleSet("defineRules", data, options) as RuleSet<FactsOf<D>>;
}

/** Options of `loadRules`. */
export interface LoadRulesOptions extends RulesOptions {
  /** The names of the facts that the application provides. Rules that use another one are invalid. */
  readonly facts: readonly string[];
}

/** Compiles rules from JSON, with the same checks at run time. */
export function loadRules(json: unknown, options: LoadRulesOptions): RuleSet {
  return createRuleSet("loadRules", json, options);
}
