/** Validates rules and resolves every reference in them. Reports all problems, and never throws. */
import { show } from "../base/errors.ts";
import { runInSlices, runSteps, type Steps } from "../base/slices.ts";
import { versionsOf } from "./canonical.ts";
import { checkLaws } from "./check-laws.ts";
import { copyData } from "./copy-data.ts";
import { at, Issues, type Place, ROOT } from "./issues.ts";
import { LimitTexts } from "./limit-text.ts";
import { checkPatterns } from "./matching/check-patterns.ts";
import { booleanAt, checkMembers, choiceAt, type Members, objectAt } from "./members.ts";
import { type Budgets, parseBudgetNames, parseBudgets, parsePlans } from "./parse-budgets.ts";
import type { ParseContext } from "./parse-limits.ts";
import { parseOverrides } from "./parse-overrides.ts";
import {
  type Defaults,
  MODES,
  parseFallback,
  parseRule,
  REFUNDS,
  type RuleResult,
  STORE_ERRORS,
} from "./parse-rule.ts";
import type { ParsedRules } from "./parsed-rules.ts";
import type { Issue, RulesData } from "./rules-data.ts";

/** The parsed rules, or what is wrong with them. */
export type ParseResult =
  | { readonly rules: ParsedRules; readonly issues?: undefined }
  | { readonly rules?: undefined; readonly issues: readonly Issue[] };

const MEMBERS = [
  "$schema",
  "version",
  "plans",
  "defaultPlan",
  "budgets",
  "defaults",
  "rules",
  "fallback",
  "overrides",
  "caseSensitive",
];
const DEFAULTS_MEMBERS = ["budgets", "mode", "onStoreError", "refundIf"];
const MAX_RULES = 512;
/** Rules that are compared with the laws in one step. */
const RULES_PER_STEP = 16;
/** Patterns that are parsed in one step, counting one for each rule. */
const PATTERNS_PER_STEP = 40;

/** Validates rules at once, for CI and tests. Never throws. */
export function checkRules(json: unknown): readonly Issue[] {
  return parseRules(json).issues ?? [];
}

/** Validates rules in slices of a few milliseconds, for a process that serves requests meanwhile. Never rejects. */
export async function checkRulesInSlices(json: unknown): Promise<readonly Issue[]> {
  const result = (await runInSlices(parseInSteps(json), () => true)) as ParseResult;
  return result.issues ?? [];
}

/** Validates and parses rules, given as an object or as the result of `JSON.parse`. Never throws. */
export function parseRules(json: unknown): ParseResult {
  return runSteps(parseInSteps(json));
}

/** The same in steps. */
export function* parseInSteps(json: unknown): Steps<ParseResult> {
  const issues = new Issues();
  const { data, freeze } = yield* copyData(json, issues);
  issues.data = data;
  const members = objectAt(issues, ROOT, data, "an object with rules and a fallback");
  const rules = members && (yield* parseMembers(issues, members));
  if (!rules || issues.count > 0) return { issues: issues.list };
  yield* freeze();
  return { rules };
}

function* parseMembers(issues: Issues, members: Members): Steps<ParsedRules | undefined> {
  checkMembers(issues, ROOT, members, MEMBERS);
  const { $schema, version = 1 } = members;
  if ($schema !== undefined && typeof $schema !== "string") issues.addType(at(ROOT, "$schema"), "text");
  if (version !== 1) issues.addType(at(ROOT, "version"), "1");
  const caseSensitive = booleanAt(issues, at(ROOT, "caseSensitive"), members) ?? false;

  const plans = parsePlans(issues, members);
  const context: ParseContext = { issues, texts: new LimitTexts(), facts: new Set(), plans };
  const budgets = parseBudgets(context, members.budgets);
  const defaults = parseDefaults(issues, members.defaults, budgets);
  const results = yield* parseList(context, members.rules, budgets, defaults);
  const fallback = parseFallback(context, at(ROOT, "fallback"), members.fallback, budgets, defaults);

  checkNames(issues, results);
  yield* checkReach(issues, results, caseSensitive);
  const all = fallback ? [...results, fallback] : results;
  for (const [i, result] of all.entries()) {
    if (result?.isValid && plans) checkLaws(issues, result, plans);
    if (i % RULES_PER_STEP === 0) yield;
  }
  const found = all.filter((result) => result !== undefined).map(({ rule }) => rule);
  const isComplete =
    plans !== undefined && fallback !== undefined && all.every((result) => result?.isValid) && !hasInvalid(budgets);
  const overrides = yield* parseOverrides(context, members.overrides, found, budgets, isComplete);
  if (issues.count > 0 || !fallback || !plans) return undefined;
  const rules = found.slice(0, -1);
  const data = members as unknown as Readonly<RulesData>;
  return Object.freeze({
    data,
    ...(yield* versionsOf(data)),
    plans,
    defaultPlan: members.defaultPlan as string | undefined,
    caseSensitive,
    budgets: [...budgets.values()].filter((budget) => budget !== undefined),
    rules,
    fallback: fallback.rule,
    overrides,
    facts: [...context.facts],
  });
}

function hasInvalid(budgets: Budgets): boolean {
  return [...budgets.values()].includes(undefined);
}

function parseDefaults(issues: Issues, value: unknown, budgets: Budgets): Defaults {
  const place = at(ROOT, "defaults");
  if (value === undefined) return { members: {}, budgets: [] };
  const members = objectAt(issues, place, value, "an object");
  if (!members) return { members: {}, budgets: [undefined] };
  checkMembers(issues, place, members, DEFAULTS_MEMBERS);
  choiceAt(issues, at(place, "mode"), members, MODES);
  choiceAt(issues, at(place, "onStoreError"), members, STORE_ERRORS);
  choiceAt(issues, at(place, "refundIf"), members, REFUNDS);
  const names = members.budgets;
  return {
    members,
    budgets: names === undefined ? [] : parseBudgetNames(issues, at(place, "budgets"), names, budgets),
  };
}

function* parseList(
  context: ParseContext,
  value: unknown,
  budgets: Budgets,
  defaults: Defaults,
): Steps<readonly (RuleResult | undefined)[]> {
  const { issues } = context;
  const place = at(ROOT, "rules");
  if (!Array.isArray(value)) {
    issues.addType(place, "a list of rules");
    return [];
  }
  if (value.length > MAX_RULES) {
    issues.add(place, `has ${value.length} rules; at most ${MAX_RULES} are allowed`);
    return [];
  }
  const results: (RuleResult | undefined)[] = [];
  let patterns = 0;
  for (const [i, rule] of value.entries()) {
    const result = parseRule(context, at(place, i), rule, budgets, defaults);
    results.push(result);
    patterns += 1 + (result?.rule.patterns.length ?? 0);
    if (patterns < PATTERNS_PER_STEP) continue;
    patterns = 0;
    yield;
  }
  return results;
}

function checkNames(issues: Issues, results: readonly (RuleResult | undefined)[]): void {
  const places = new Map<string, number>();
  for (const [i, result] of results.entries()) {
    if (!result || result.rule.name === "") continue;
    const { rule, place } = result;
    const first = places.get(rule.name);
    if (first === undefined) places.set(rule.name, i);
    else issues.add(at(place, "name"), `the name ${show(rule.name)} is already used by rules[${first}]`);
  }
}

/** Law 1: a pattern that no request reaches is an error, and so is one that overlaps too many others. */
function* checkReach(
  issues: Issues,
  results: readonly (RuleResult | undefined)[],
  caseSensitive: boolean,
): Steps<void> {
  const rules = results.map((result) => ({
    patterns: result?.rule.patterns ?? [],
    hasCondition: (result?.rule.when.length ?? 0) > 0,
  }));
  for (const { rule, pattern, hiddenBy, overlaps } of yield* checkPatterns(rules, caseSensitive)) {
    const result = results[rule] as RuleResult;
    const place = result.patternPlaces[pattern] as Place;
    if (hiddenBy === undefined) {
      issues.add(place, `overlaps ${overlaps} other patterns; at most 32 are allowed`);
    } else if (hiddenBy === rule) {
      issues.add(place, "unreachable, because another pattern of the rule matches all of its requests first");
    } else {
      const name = results[hiddenBy]?.rule.name;
      const by = `rules[${hiddenBy}]${name ? ` ${show(name)}` : ""}`;
      issues.add(place, `unreachable, because ${by} matches all of its requests first`);
    }
  }
}
