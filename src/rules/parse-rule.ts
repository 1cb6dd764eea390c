/** Parses one rule or the fallback: applies its preset and the defaults, and resolves its budgets. */

import { parseDuration } from "../base/rate.ts";
import type { OnStoreError } from "../core/apply.ts";
import { MAX_HOLD_MS } from "../holds/hold-options.ts";
import { at, type Issues, type Place, pathOf, quoted } from "./issues.ts";
import { type Pattern, parsePattern } from "./matching/pattern.ts";
import { patternAdvice } from "./matching/pattern-advice.ts";
import { booleanAt, checkMembers, choiceAt, isMembers, type Members, nameAt, objectAt, textsAt } from "./members.ts";
import { type Budgets, type CompiledBudget, parseBudgetNames } from "./parse-budgets.ts";
import { clearedLimits } from "./parse-clearance.ts";
import {
  type CompiledLimit,
  type ParseContext,
  parseLimits,
  specsOf,
  type WrittenLimit,
  writtenLimits,
} from "./parse-limits.ts";
import { parseWhen } from "./parse-when.ts";
import { parseWithout } from "./parse-without.ts";
import type { ParsedRule } from "./parsed-rules.ts";
import { presets } from "./presets.ts";
import type { Action, PresetName } from "./rules-data.ts";

/** A rule while the file is parsed. */
export interface CompiledRule extends ParsedRule {
  readonly limits: readonly CompiledLimit[];
  readonly budgets: readonly CompiledBudget[];
  readonly cleared: readonly CompiledLimit[] | undefined;
}

/** The settings of rules that do not set their own. */
export interface Defaults {
  readonly members: Members;
  readonly budgets: readonly (CompiledBudget | undefined)[];
}

/** A rule, the place of each of its patterns, and whether it can be checked together with others. */
export interface RuleResult {
  readonly rule: CompiledRule;
  readonly place: Place;
  readonly patternPlaces: readonly Place[];
  readonly isValid: boolean;
}

const FALLBACK_MEMBERS = [
  "preset",
  "limits",
  "without",
  "budgets",
  "unlimited",
  "perPattern",
  "weight",
  "hold",
  "refundIf",
  "mode",
  "onStoreError",
  "action",
  "withClearance",
  "penalty",
] as const;
const SELECTORS: readonly string[] = ["name", "match", "when"];
const RULE_MEMBERS: readonly string[] = [...SELECTORS, ...FALLBACK_MEMBERS];

const ACTIONS: readonly Action[] = ["deny", "challenge", "flag"];
export const MODES = ["enforce", "shadow"] as const;
export const REFUNDS = ["failed", "succeeded", "reported"] as const;
export const STORE_ERRORS: readonly OnStoreError[] = ["local", "open", "closed", "throw"];
/** The largest cost of a charge. */
const MAX_WEIGHT = 2 ** 31 - 1;

/** Parses a rule of the list. */
export function parseRule(
  context: ParseContext,
  place: Place,
  value: unknown,
  budgets: Budgets,
  defaults: Defaults,
): RuleResult | undefined {
  const { issues } = context;
  const members = objectAt(issues, place, value, "a rule, which is an object");
  if (!members) return undefined;
  const before = issues.count;
  checkMembers(issues, place, members, RULE_MEMBERS);
  const name = parseName(issues, at(place, "name"), members.name);
  const patterns: Pattern[] = [];
  const patternPlaces: Place[] = [];
  const matchPlace = at(place, "match");
  const expected = 'a pattern such as "GET /v1/users/:id"';
  for (const { place, text } of textsAt(issues, matchPlace, members.match, expected)) {
    const pattern = parsePattern(text);
    if (pattern) {
      patterns.push(pattern);
      patternPlaces.push(place);
    } else {
      issues.add(place, () => `${quoted([text])} is not a pattern; ${patternAdvice(text)}`);
    }
  }
  const when = parseWhen(context, at(place, "when"), members.when);
  const { isComplete, ...settings } = parseSettings(context, place, members, name ?? "rule", budgets, defaults);
  const rule = Object.freeze({
    name: name ?? "",
    path: pathOf(place),
    patterns: Object.freeze(patterns),
    when,
    ...settings,
  });
  return { rule, place, patternPlaces, isValid: isComplete && issues.count === before };
}

/** Parses the fallback. */
export function parseFallback(
  context: ParseContext,
  place: Place,
  value: unknown,
  budgets: Budgets,
  defaults: Defaults,
): RuleResult | undefined {
  const { issues } = context;
  if (value === undefined) {
    issues.add(place, 'missing; requests that match no rule need limits, or "unlimited"');
    return undefined;
  }
  const members =
    value === "unlimited"
      ? { unlimited: true }
      : objectAt(issues, place, value, 'an object with limits, or "unlimited"');
  if (!members) return undefined;
  const before = issues.count;
  checkMembers(issues, place, members, FALLBACK_MEMBERS);
  if (members.perPattern === true) issues.add(at(place, "perPattern"), "the fallback has no patterns");
  const { isComplete, ...settings } = parseSettings(context, place, members, "fallback", budgets, defaults);
  const rule = Object.freeze({ name: "fallback", path: pathOf(place), patterns: [], when: [], ...settings });
  return { rule, place, patternPlaces: [], isValid: isComplete && issues.count === before };
}

function parseName(issues: Issues, place: Place, value: unknown): string | undefined {
  const name = nameAt(issues, place, value);
  if (name === "fallback") issues.add(place, '"fallback" is the name of the fallback; choose another name');
  return name;
}

/** Parses everything but name, patterns and conditions. */
function parseSettings(
  context: ParseContext,
  place: Place,
  own: Members,
  name: string,
  budgetsByName: Budgets,
  defaults: Defaults,
): Omit<CompiledRule, "name" | "path" | "patterns" | "when"> & { isComplete: boolean } {
  const { issues } = context;
  const { unlimited } = own;
  if (unlimited !== undefined && unlimited !== true) issues.addType(at(place, "unlimited"), "true or left out");
  if (unlimited === true) {
    for (const member of FALLBACK_MEMBERS) {
      if (member === "unlimited" || own[member] === undefined) continue;
      issues.add(at(place, member), "can't be combined with unlimited, which counts nothing");
    }
  }
  const preset = presetOf(issues, at(place, "preset"), own);
  const members: Members = { ...preset, ...own };
  /** A setting of the rule, else of its preset, else of the defaults. The defaults were checked before. */
  const setting = <T extends string>(member: string, choices: readonly T[]): T | undefined =>
    choiceAt(issues, at(place, member), members, choices) ?? (defaults.members[member] as T | undefined);

  const written = merge(
    writtenLimits(issues, at(place, "limits"), own.limits),
    preset.limits as Members | undefined,
    place,
  );
  const actionOf = parseAction(issues, at(place, "action"), members, written);
  const limits = written.flatMap((limit) => parseLimits(context, limit, `${name}.${limit.per}`, actionOf(limit.per)));
  const challenged = written.filter(({ per }) => actionOf(per) === "challenge");
  const withClearance = writtenLimits(issues, at(place, "withClearance"), own.withClearance);
  if (own.withClearance !== undefined && challenged.length === 0) {
    const message = 'replaces nothing, because no limit of the rule has the action "challenge"';
    issues.add(at(place, "withClearance"), message);
  }
  const replacements = clearedLimits(at(place, "withClearance"), withClearance, challenged);
  const cleared =
    challenged.length === 0
      ? undefined
      : [
          ...limits.filter(({ action }) => action !== "challenge"),
          ...replacements.flatMap((limit) => {
            const parsed = parseLimits(context, limit, `${name}.cleared.${limit.per}`);
            if (withClearance.length > 0) return parsed;
            // As many as limits that end in a challenge, in the same order.
            const replaced = limits.filter(({ action }) => action === "challenge");
            return parsed.map((one, i) => Object.freeze({ ...one, replaces: replaced[i] }));
          }),
        ];
  const budgets =
    members.budgets === undefined
      ? unlimited === true
        ? []
        : defaults.budgets
      : parseBudgetNames(issues, at(place, "budgets"), members.budgets, budgetsByName);
  const known = budgets.filter((budget) => budget !== undefined);
  const pers = [...written, ...known.flatMap(({ limits }) => limits)].map(({ per }) => per);
  const without = parseWithout(context, own.without, preset.without, {
    place: at(place, "without"),
    name,
    pers: known.length === budgets.length && unlimited !== true ? pers : undefined,
  });
  // A rule may replace the limits of its preset that count a fact. The preset's hold has nothing to hold then.
  const counted = [...limits, ...without, ...(cleared ?? []), ...known.flatMap(({ limits }) => limits)];
  const canHold = counted.some((limit) => specsOf(limit).some(([, { of }]) => of !== undefined));
  const holdMs = parseHold(issues, at(place, "hold"), canHold ? members.hold : own.hold);
  if (holdMs !== undefined && members.refundIf !== undefined) {
    issues.add(at(place, "refundIf"), "can't be combined with hold; settle the actual amount instead");
  }
  // What is held is settled, so a default that refunds does not apply to it.
  const refundIf =
    holdMs === undefined ? setting("refundIf", REFUNDS) : choiceAt(issues, at(place, "refundIf"), members, REFUNDS);
  return {
    isComplete: known.length === budgets.length,
    isUnlimited: unlimited === true,
    limits: Object.freeze([...limits, ...without]),
    budgets: Object.freeze(known),
    cleared: cleared && Object.freeze([...cleared, ...without]),
    perPattern: booleanAt(issues, at(place, "perPattern"), members) ?? false,
    weight: parseWeight(issues, at(place, "weight"), members.weight),
    holdMs,
    refundIf,
    mode: setting("mode", MODES) ?? "enforce",
    onStoreError: setting("onStoreError", STORE_ERRORS) ?? "local",
    penalty: booleanAt(issues, at(place, "penalty"), members) ?? false,
  };
}

function presetOf(issues: Issues, place: Place, { preset }: Members): Members {
  if (preset === undefined) return {};
  if (typeof preset === "string" && Object.hasOwn(presets, preset)) return presets[preset as PresetName] as Members;
  const names = Object.keys(presets);
  if (typeof preset === "string") issues.addUnknown(place, "preset", preset, names, `the presets are ${quoted(names)}`);
  else issues.addType(place, "the name of a preset");
  return {};
}

/** The limits of a rule and its preset: those of the preset first, with the rule's own values. */
function merge(own: readonly WrittenLimit[], preset: Members | undefined, place: Place): readonly WrittenLimit[] {
  if (!preset) return own;
  const inherited = Object.entries(preset).map(
    ([per, value]) => own.find((limit) => limit.per === per) ?? { per, value, place: at(at(place, "limits"), per) },
  );
  return [...inherited, ...own.filter(({ per }) => !Object.hasOwn(preset, per))];
}

/** Returns the action of the limits of each identity. */
function parseAction(
  issues: Issues,
  place: Place,
  { action }: Members,
  limits: readonly WrittenLimit[],
): (per: string) => Action {
  if (!isMembers(action)) {
    const one = choiceAt(issues, place, { action }, ACTIONS);
    return () => one ?? "deny";
  }
  for (const per of Object.keys(action)) {
    const isOwn = limits.some((limit) => limit.per === per);
    choiceAt(issues, at(place, per), action, ACTIONS);
    if (isOwn) continue;
    const own = limits.length > 0 ? `its limits are per ${quoted(limits.map(({ per }) => per))}` : "it has none";
    issues.add(at(place, per), `the rule has no limit of its own per ${quoted([per])}; ${own}`);
  }
  return (per) => (Object.hasOwn(action, per) ? (action[per] as Action) : "deny");
}

function parseWeight(issues: Issues, place: Place, value: unknown): number {
  if (value === undefined) return 1;
  const isWeight = typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= MAX_WEIGHT;
  if (!isWeight) issues.addType(place, `a whole number from 1 to ${MAX_WEIGHT}`);
  return isWeight ? value : 1;
}

function parseHold(issues: Issues, place: Place, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  try {
    const ms = parseDuration("hold", value);
    if (typeof ms === "number" && Number.isInteger(ms) && ms >= 1 && ms <= MAX_HOLD_MS) return ms;
  } catch {
    // Not a duration: reported like any other value.
  }
  issues.addType(place, 'a duration from 1 ms to 1 d, such as "5m"');
  return undefined;
}
