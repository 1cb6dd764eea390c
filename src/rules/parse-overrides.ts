/** Parses overrides: limits for single keys. */
import { show } from "../base/errors.ts";
import type { Steps } from "../base/slices.ts";
import { checkKey } from "../http/identity/identities.ts";
import { cannotHold, countsWeight } from "./check-laws.ts";
import { namesOf } from "./copy-data.ts";
import { at, type Place, ROOT } from "./issues.ts";
import type { CompiledSpec } from "./limit-text.ts";
import { objectAt } from "./members.ts";
import type { Budgets } from "./parse-budgets.ts";
import { type CompiledLimit, type ParseContext, parseLimitText, specsOf } from "./parse-limits.ts";
import type { CompiledRule } from "./parse-rule.ts";
import type { ParsedRules } from "./parsed-rules.ts";

/** Keys that are parsed in one step. */
const KEYS_PER_STEP = 200;

/** A limit that can be overridden, and what the rules require of it. */
interface Target {
  readonly limit: CompiledLimit;
  /** The facts that it counts; `undefined`: requests. */
  readonly counted: ReadonlySet<string | undefined>;
  /** The rule with the largest weight among those that share it. */
  heaviest?: CompiledRule;
  /** Whether a rule holds what it counts. */
  isHeld: boolean;
}

/** Parses `overrides`. `isComplete`: no rule or budget is invalid, so that every name that is not found is unknown. */
export function* parseOverrides(
  context: ParseContext,
  value: unknown,
  rules: readonly CompiledRule[],
  budgets: Budgets,
  isComplete: boolean,
): Steps<ParsedRules["overrides"]> {
  const { issues } = context;
  const place = at(ROOT, "overrides");
  const overrides = new Map<string, ReadonlyMap<string, CompiledSpec>>();
  if (value === undefined) return overrides;
  const members = objectAt(issues, place, value, 'an object such as { "tenant:acme": { "api": "100/s" } }') ?? {};
  const targets = targetsOf(rules, budgets);
  const names = [...targets.keys()];
  for (const [i, key] of namesOf(members).entries()) {
    if (i % KEYS_PER_STEP === 0) yield;
    // Errors of 100 000 different texts take longer than the rest of the file.
    if (issues.isFull) break;
    const keyPlace = at(place, key);
    const expected = "an object of limits by their names";
    const limits = objectAt(issues, keyPlace, members[key], expected) ?? {};
    const specs = new Map<string, CompiledSpec>();
    for (const name of Object.keys(limits)) {
      const limitPlace = at(keyPlace, name);
      const target = targets.get(name);
      const spec = parseLimitText(context, limitPlace, limits[name]);
      if (!target) {
        const advice = 'use the name of a budget, or that of a rule and an identity, such as "search.client"';
        if (isComplete) issues.addUnknown(limitPlace, "limit", name, names, advice);
      } else if (spec && checkOverride(context, limitPlace, { key, spec, target })) {
        specs.set(name, spec);
      }
    }
    overrides.set(key, specs);
  }
  return overrides;
}

/** All limits by name. */
function targetsOf(rules: readonly CompiledRule[], budgets: Budgets): Map<string, Target> {
  const targets = new Map<string, Target>();
  const add = (limit: CompiledLimit) => {
    const specs = specsOf(limit).filter(([, { policy }]) => policy !== undefined);
    targets.set(limit.name, { limit, counted: new Set(specs.map(([, { of }]) => of)), isHeld: false });
  };
  for (const budget of budgets.values()) for (const limit of budget?.limits ?? []) add(limit);
  for (const rule of rules) {
    for (const limit of rule.limits) add(limit);
    for (const { name } of [...rule.limits, ...rule.budgets.flatMap(({ limits }) => limits)]) {
      const target = targets.get(name) as Target;
      if (rule.holdMs !== undefined) target.isHeld = true;
      const isShared = !rule.limits.includes(target.limit);
      if (isShared && rule.weight > (target.heaviest?.weight ?? 0)) target.heaviest = rule;
    }
  }
  return targets;
}

/** Reports an override that does not fit its limit: its key, what it counts, the weights and holds of the rules. */
function checkOverride(
  { issues }: ParseContext,
  place: Place,
  { key, spec, target }: { key: string; spec: CompiledSpec; target: Target },
): boolean {
  const { limit, counted, heaviest, isHeld } = target;
  const keyForm = checkKey(key, limit.identities);
  const held = isHeld ? cannotHold(spec) : undefined;
  if (keyForm !== undefined) {
    issues.add(place, `limit ${show(limit.name)} is counted per ${limit.per}, so ${keyForm}`);
  } else if (spec.policy && counted.size > 0 && !counted.has(spec.of)) {
    const [of] = counted;
    const advice = of === undefined ? `remove "of ${spec.of}"` : `write it with "of ${of}"`;
    issues.add(place, `must count ${of ?? "requests"}, as the limit does; ${advice}`);
  } else if (heaviest && countsWeight(spec) && spec.compiled.limit < heaviest.weight) {
    const weight = `the weight of rule ${show(heaviest.name)} (${heaviest.weight})`;
    issues.add(place, `its capacity (${spec.compiled.limit}) is less than ${weight}`);
  } else if (held !== undefined) {
    issues.add(place, held);
  } else {
    return true;
  }
  return false;
}
