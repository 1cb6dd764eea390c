/** Rules that were validated: every reference is resolved, and presets and defaults are applied. */

import type { OnStoreError } from "../core/apply.ts";
import type { Policy } from "../core/policy.ts";
import type { RefundIf } from "../http/request-ending.ts";
import type { Pattern } from "./matching/pattern.ts";
import type { Action, LimitText, RulesData } from "./rules-data.ts";

/** A validated set of rules. */
export interface ParsedRules {
  /** A deep-frozen copy of the data. */
  readonly data: Readonly<RulesData>;
  /** 8 hex digits derived from the canonical data. */
  readonly version: string;
  /** The same for each member of the data. */
  readonly memberVersions: ReadonlyMap<string, string>;
  /** The plans; empty if there are none. */
  readonly plans: readonly string[];
  readonly defaultPlan: string | undefined;
  readonly caseSensitive: boolean;
  readonly budgets: readonly ParsedBudget[];
  /** In written order. */
  readonly rules: readonly ParsedRule[];
  /** The rule of requests that match no other. Its name is `fallback`, and it has no patterns. */
  readonly fallback: ParsedRule;
  /** Overrides by key, then by the name of a limit without its plan: `report.client`, `api`, `api.2`. */
  readonly overrides: ReadonlyMap<string, ReadonlyMap<string, LimitSpec>>;
  /** The names of all facts that the rules use: in `limits`, budgets, `of` and `when`, and `plan` if limits depend on it. */
  readonly facts: readonly string[];
}

/** Limits shared by several rules. */
export interface ParsedBudget {
  readonly name: string;
  /** One, or several for the same identity. */
  readonly limits: readonly ParsedLimit[];
}

/** A validated rule. */
export interface ParsedRule {
  readonly name: string;
  /** Where it is in the data: `rules[3]` or `fallback`. */
  readonly path: string;
  readonly patterns: readonly Pattern[];
  /** The facts that must have one of these values. Empty: no condition. */
  readonly when: readonly { readonly fact: string; readonly values: readonly string[] }[];
  readonly isUnlimited: boolean;
  /** Its own limits, in order. */
  readonly limits: readonly ParsedLimit[];
  /** Its own limits for callers with a clearance; `undefined` if no limit ends in a challenge. */
  readonly cleared: readonly ParsedLimit[] | undefined;
  /** The budgets that it charges, in order, each once. */
  readonly budgets: readonly ParsedBudget[];
  readonly perPattern: boolean;
  readonly weight: number;
  /** How long counted facts are held, in ms; `undefined`: they are charged at once. */
  readonly holdMs: number | undefined;
  readonly refundIf: RefundIf | undefined;
  readonly mode: "enforce" | "shadow";
  readonly onStoreError: OnStoreError;
  /** Whether a denial is a strike. */
  readonly penalty: boolean;
}

/** One limit of one identity. */
export interface ParsedLimit {
  /** Its name without a plan: `report.client`, `report.client.2`, `api`. */
  readonly name: string;
  /** As written: `ip+account`. */
  readonly per: string;
  /** The parts of `per`: identities and facts. */
  readonly identities: readonly string[];
  /** What happens when it is exceeded. That of a budget is `deny`. */
  readonly action: Action;
  /** The identities of another limit: it applies to callers who lack one of them. `undefined`: it applies to all. */
  readonly without?: readonly string[] | undefined;
  /** The limit that it replaces for callers with a clearance, whose overrides apply to it as well. */
  readonly replaces?: ParsedLimit | undefined;
  /** The limit of all plans, or one for each plan. */
  readonly spec: LimitSpec | ReadonlyMap<string, LimitSpec>;
}

/** The text of a limit, parsed. */
export interface LimitSpec {
  readonly text: LimitText;
  /** The policy, without name and prefix; `undefined`: unlimited. */
  readonly policy: Policy | undefined;
  /** The fact that it counts; `undefined`: requests. */
  readonly of: string | undefined;
}

/** The limit of a plan. */
export function specOf({ spec }: ParsedLimit, plan: string): LimitSpec {
  return isByPlan(spec) ? (spec.get(plan) as LimitSpec) : spec;
}

/** Whether a limit was written for each plan. */
export function isByPlan(spec: ParsedLimit["spec"]): spec is ReadonlyMap<string, LimitSpec> {
  return spec instanceof Map;
}
