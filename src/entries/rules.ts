/** `sluice/rules`: limits of many endpoints, plans and shared budgets in one file. */
export type { Per } from "../http/identity/identities.ts";
export type { FactFunction, FactFunctions } from "../middleware/gate/options.ts";
export { defineRules, type LoadRulesOptions, loadRules } from "../rules/define-rules.ts";
export type { FindOverride } from "../rules/overrides.ts";
export { checkRules, checkRulesInSlices } from "../rules/parse-rules.ts";
export { presets } from "../rules/presets.ts";
export type { RuleHold } from "../rules/rule-charges.ts";
export type { RuleMatch, RulePolicy } from "../rules/rule-match.ts";
export type { RuleDecision, RuleHoldDecision, RuleRequest, RuleSet, RulesOptions } from "../rules/rule-set-types.ts";
export type {
  Action,
  ByPlan,
  FactValues,
  Issue,
  Limits,
  LimitText,
  PresetName,
  RuleData,
  RulesData,
} from "../rules/rules-data.ts";
export type { FactsOf } from "../rules/rules-types.ts";
