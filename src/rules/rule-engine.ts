/** Finds the charges of a request: its rule by path and conditions, its plan, its keys and its amounts. */

import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Steps } from "../base/slices.ts";
import type { Engine } from "../core/apply.ts";
import { MAX_CHARGES } from "../core/charge.ts";
import { type Known, PENDING, type RequestValues } from "../http/request-values.ts";
import type { ActiveCharge } from "./charge-group.ts";
import {
  ANY_PLAN,
  type CompiledRule,
  compileRules,
  type PolicyTable,
  type RuleCharge,
  type RulePlan,
  type UnlimitedLimit,
} from "./compiled-rules.ts";
import {
  add,
  checkAmount,
  dependOnPlan,
  distinct,
  type FoundRule,
  foundRule,
  hasUniversal,
  isCleared,
  isIdentified,
  planFor,
  policiesOf,
  unidentified,
  watchLimits,
} from "./found-rules.ts";
import type { LimitWatches } from "./limit-watch.ts";
import { type Candidate, Matcher } from "./matching/matcher.ts";
import type { Overrides } from "./overrides.ts";
import type { LimitSpec, ParsedLimit, ParsedRules } from "./parsed-rules.ts";
import type { RulePenalties } from "./penalties.ts";
import { RuleCharges } from "./rule-charges.ts";

/** The charges of a request; `"exempt"`: it is not limited. `"ambiguous"`: its path matches too many rules. */
export type FoundCharges = RuleCharges | "exempt" | "ambiguous";

const NONE: readonly never[] = [];
/** Set in a mask of charges if one of them is an override. A rule has at most 14 charges. */
const OVERRIDDEN = 1 << 20;
/** The first bit of penalties in such a mask. */
const PENALTIES = 1 << 21;

/** What an engine is made of. */
export interface EngineParts {
  readonly parsed: ParsedRules;
  readonly table: PolicyTable;
  readonly storeEngine: Engine;
  readonly overrides: Overrides | undefined;
  readonly onUnknownPlan: (plan: string) => void;
  readonly watches: LimitWatches;
}

/** One version of the rules. It never changes, so a request that has started keeps its version. */
export class RuleEngine {
  readonly parsed: ParsedRules;
  readonly table: PolicyTable;
  readonly rules: readonly CompiledRule[];
  readonly fallback: CompiledRule;
  private readonly matcher: Matcher;
  /** The results of `pick`, by rule and pattern. */
  private readonly found: readonly (readonly FoundRule[])[];
  private readonly foundFallback: FoundRule;
  private readonly storeEngine: Engine;
  private readonly overrides: Overrides | undefined;
  private readonly onUnknownPlan: (plan: string) => void;

  private constructor(
    { parsed, table, storeEngine, overrides, onUnknownPlan, watches }: EngineParts,
    { rules, fallback }: { readonly rules: readonly CompiledRule[]; readonly fallback: CompiledRule },
    matcher: Matcher,
  ) {
    this.parsed = parsed;
    this.table = table;
    this.storeEngine = storeEngine;
    this.overrides = overrides;
    this.onUnknownPlan = onUnknownPlan;
    this.rules = rules;
    this.fallback = fallback;
    this.matcher = matcher;
    for (const compiled of [...rules, fallback]) compiled.watch = watches.watch(compiled.rule);
    this.found = rules.map((compiled) =>
      compiled.rule.patterns.map((_, pattern) => foundRule(compiled, compiled.rule.perPattern ? pattern : 0)),
    );
    this.foundFallback = foundRule(fallback, 0);
  }

  /** Creates the engine of one version. Throws if the store can't count a policy. */
  static *build(parts: EngineParts): Steps<RuleEngine> {
    const { parsed, table } = parts;
    const compiled = yield* compileRules(parsed, table);
    const matcher = yield* Matcher.build(parsed.rules, parsed.caseSensitive);
    return new RuleEngine(parts, compiled, matcher);
  }

  /** Finds the charges of a request. Without a promise unless a fact, an identity or an override has one. */
  chargesFor(values: RequestValues, penalties?: RulePenalties): MaybePromise<FoundCharges> {
    const { method, path } = values.context;
    const readings = this.matcher.find(method, path);
    const found = this.find(readings, values, penalties);
    return found === PENDING ? this.findLater(readings, values, penalties) : found;
  }

  /** Everything that was computed is kept, so that a search is repeated when more is known. */
  private async findLater(
    readings: readonly (readonly Candidate[])[],
    values: RequestValues,
    penalties: RulePenalties | undefined,
  ): Promise<FoundCharges> {
    for (;;) {
      await values.settled();
      const found = this.find(readings, values, penalties);
      if (found !== PENDING) return found;
    }
  }

  /** The rules that apply to a request: one, or one per reading of an unusual path. `undefined`: it is exempt. */
  rulesFor(
    readings: readonly (readonly Candidate[])[],
    values: RequestValues,
  ): Known<readonly FoundRule[] | undefined> {
    const [only] = readings;
    if (readings.length === 1) {
      const found = this.pick(only as readonly Candidate[], values, false);
      if (found === PENDING) return PENDING;
      return found.compiled.rule.isUnlimited ? undefined : found.alone;
    }
    const first = readings.map((reading) => this.pick(reading, values, false));
    if (first.includes(PENDING)) return PENDING;
    // An unusual spelling is exempt only if every router would route it to an exempt handler.
    if ((first as FoundRule[]).every(({ compiled }) => compiled.rule.isUnlimited)) return undefined;
    const limited = readings.map((reading) => this.pick(reading, values, true));
    if (limited.includes(PENDING)) return PENDING;
    return distinct(limited as FoundRule[]).filter(({ compiled }) => !compiled.rule.isUnlimited);
  }

  /** The rule of the path as it was sent. */
  firstOf([reading = []]: readonly (readonly Candidate[])[], values: RequestValues): Known<FoundRule> {
    return this.pick(reading, values, false);
  }

  /** The rules that match a path, for each of its readings. */
  readingsOf(method: string, path: string): readonly (readonly Candidate[])[] {
    return this.matcher.find(method, path);
  }

  /** The caller's plan. `onUnknown` is called with one that is not listed. */
  planOf(values: RequestValues, onUnknown?: (plan: string) => void): Known<string> {
    const { plans, defaultPlan = "" } = this.parsed;
    const plan = values.fact("plan");
    if (plan === PENDING) return PENDING;
    if (plan === undefined) return defaultPlan;
    const name = String(plan);
    if (plans.includes(name)) return name;
    onUnknown?.(name);
    return defaultPlan;
  }

  private find(
    readings: readonly (readonly Candidate[])[],
    values: RequestValues,
    penalties: RulePenalties | undefined,
  ): Known<FoundCharges> {
    const rules = this.rulesFor(readings, values);
    if (rules === PENDING) return PENDING;
    if (rules === undefined || rules.length === 0) return "exempt";
    const plan = dependOnPlan(rules) ? this.planOf(values, this.onUnknownPlan) : ANY_PLAN;
    if (plan === PENDING) return PENDING;
    const active: ActiveCharge[] = [];
    let isPending = false;
    let charged: RulePlan | undefined;
    let applied = 0;
    for (const { compiled, variant } of rules) {
      const cleared = isCleared(compiled, values);
      if (cleared === PENDING) return PENDING;
      const rulePlan = planFor(compiled, variant, plan, cleared);
      for (let i = 0; i < rulePlan.charges.length; i++) {
        const charge = rulePlan.charges[i] as RuleCharge;
        const found = this.activate(compiled, charge, values);
        if (found === PENDING) isPending = true;
        if (typeof found === "object") {
          add(active, found, rules.length > 1);
          applied |= found.charge === charge ? 1 << i : OVERRIDDEN;
        }
      }
      for (const limit of this.hasOverrides ? rulePlan.unlimited : NONE) {
        const found = this.activate(compiled, limit, values);
        if (found === PENDING) isPending = true;
        else if (found) {
          add(active, found, rules.length > 1);
          applied |= OVERRIDDEN;
        }
      }
      charged = rulePlan;
    }
    if (isPending) return PENDING;
    for (const found of rules) if (found.compiled.watch) watchLimits(found, plan, values);
    const [first] = rules as [FoundRule];
    if (!hasUniversal(active) && !isIdentified(rules, plan, values)) throw unidentified(first.compiled.rule.name);
    // After that check: a penalty limits nothing while the key is not blocked.
    const penalized = penalties?.addTo(active, rules, values) ?? 0;
    if (penalized === PENDING) return PENDING;
    // All limits have an override that is unlimited.
    if (active.length === 0) return "exempt";
    if (active.length > MAX_CHARGES) return "ambiguous";
    const known = rules.length === 1 && applied < OVERRIDDEN ? charged : undefined;
    const lists = known && penalties ? penalties.listsFor(known) : known?.policyLists;
    const policies = policiesOf(active, lists, applied + penalized * PENALTIES);
    return new RuleCharges(this.storeEngine, first.compiled.rule.name, active, policies);
  }

  /** The first rule whose conditions are met. */
  private pick(candidates: readonly Candidate[], values: RequestValues, isLimited: boolean): Known<FoundRule> {
    for (const { rule, pattern } of candidates) {
      const compiled = this.rules[rule] as CompiledRule;
      if (isLimited && compiled.rule.isUnlimited) continue;
      const isMet = this.meets(compiled, values);
      if (isMet === PENDING) return PENDING;
      if (isMet) return this.found[rule]?.[pattern] as FoundRule;
    }
    return this.foundFallback;
  }

  /** Whether a request meets the conditions of a rule. An unknown plan is the default plan here as well. */
  private meets({ rule }: CompiledRule, values: RequestValues): Known<boolean> {
    let isPending = false;
    for (const { fact, values: accepted } of rule.when) {
      const isPlan = fact === "plan" && this.parsed.plans.length > 0;
      const value = isPlan ? this.planOf(values) : values.fact(fact);
      if (value === PENDING) isPending = true;
      else if (value === undefined || !accepted.includes(String(value))) return false;
    }
    return isPending ? PENDING : true;
  }

  /** A charge with its key and amount; `undefined` if it does not apply to the caller. */
  private activate(
    { rule }: CompiledRule,
    limited: RuleCharge | UnlimitedLimit,
    values: RequestValues,
  ): Known<ActiveCharge | undefined> {
    const { limit } = limited;
    if (limit.without) {
      const other = values.key(limit.without);
      if (other !== undefined) return other === PENDING ? PENDING : undefined;
    }
    const charge = limited.part ? limited : undefined;
    const key = values.key(limit.identities);
    if (key === undefined) return undefined;
    // Read with the key, so that both can be pending at once.
    const counted = charge?.of === undefined ? undefined : values.fact(charge.of);
    if (key === PENDING || counted === PENDING) return PENDING;
    const spec = this.overrideFor(limit, key, values);
    if (spec === PENDING) return PENDING;
    const chosen = spec
      ? this.table.override(rule, limited, spec, (reason) => this.overrides?.reject(limit.name, key, reason))
      : charge;
    if (!chosen) return undefined;
    const { of } = chosen;
    if (of === undefined || chosen.mode === "lease") return { rule, charge: chosen, key, amount: chosen.amount };
    const value = values.fact(of);
    return value === PENDING ? PENDING : { rule, charge: chosen, key, amount: checkAmount(of, value) };
  }

  /** Whether limits may have overrides, also those that are unlimited. */
  private get hasOverrides(): boolean {
    return this.overrides !== undefined || this.parsed.overrides.size > 0;
  }

  /** The override of a limit, or of the limit that it replaces for callers with a clearance. */
  private overrideFor(limit: ParsedLimit, key: string, values: RequestValues): Known<LimitSpec | undefined> {
    if (!this.hasOverrides) return undefined;
    const own = this.overrideOf(limit.name, key, values);
    if (own !== undefined || !limit.replaces) return own;
    const { name, identities } = limit.replaces;
    const replacedKey = values.key(identities);
    if (replacedKey === PENDING || replacedKey === undefined) return replacedKey;
    return this.overrideOf(name, replacedKey, values);
  }

  /** The override of a limit for a key: as written in the rules, else that of the function. */
  private overrideOf(limit: string, key: string, values: RequestValues): Known<LimitSpec | undefined> {
    const { overrides, parsed } = this;
    const written = parsed.overrides.size > 0 ? parsed.overrides.get(key)?.get(limit) : undefined;
    if (written || !overrides) return written;
    return values.override(`${limit}\n${key}`, () => overrides.of(limit, key));
  }
}
