/** Rules that are ready to be charged: every limit of every plan as a policy on the store. */

import { BoundedMap } from "../base/bounded-map.ts";
import { show } from "../base/errors.ts";
import type { Steps } from "../base/slices.ts";
import type { LimiterContext, OnStoreError, Part } from "../core/apply.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { observerPort } from "../core/observer.ts";
import type { Policy, ResolvedPolicy } from "../core/policy.ts";
import type { Store } from "../core/store.ts";
import { checkHoldable } from "../holds/hold-charge.ts";
import { isOfAllCallers } from "../http/identity/identities.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import { engineOf } from "../remote/engine.ts";
import { type FailureOptions, parseFailureOptions } from "../remote/failure-options.ts";
import { cannotHold, countsWeight } from "./check-laws.ts";
import { hexHash } from "./hex-hash.ts";
import type { CompiledSpec } from "./limit-text.ts";
import type { RuleWatch } from "./limit-watch.ts";
import { isWithout } from "./parse-without.ts";
import {
  isByPlan,
  type LimitSpec,
  type ParsedLimit,
  type ParsedRule,
  type ParsedRules,
  specOf,
} from "./parsed-rules.ts";
import type { LimitText } from "./rules-data.ts";

/** One limit of a rule on one plan, ready to be charged. */
export interface RuleCharge extends Overridable {
  readonly text: LimitText;
  readonly part: Part;
  /** The policy as header fields describe it. */
  readonly resolved: ResolvedPolicy;
  /** The amount of a request, if no fact is counted. */
  readonly amount: number;
  /**
   * Whether the amount is taken, held until it is settled, or a lease that is held while the request runs; of a penalty,
   * whether a denial is a strike, or only a block denies.
   */
  readonly mode: ChargeMode;
  /** Whether it applies to every caller, alone or with a limit for those who lack its identity. */
  readonly isUniversal: boolean;
  /** Whether it is enforced, or counted only. */
  readonly group: "enforced" | "shadow" | "flag";
}

type ChargeMode = "take" | "hold" | "lease" | "penalty" | "peek";

/** A limit that may have an override. */
interface Overridable {
  readonly limit: ParsedLimit;
  /** The fact that is counted; `undefined`: requests. */
  readonly of: string | undefined;
  /** The prefix of its policies. */
  readonly prefix: string | undefined;
}

/** A limit that is unlimited on a plan. */
export interface UnlimitedLimit extends Overridable {
  readonly part?: undefined;
}

/** The charges of a rule on one plan, in order. */
export interface RulePlan {
  readonly charges: readonly RuleCharge[];
  /** The limits without a charge. */
  readonly unlimited: readonly UnlimitedLimit[];
  /** The policies of charges that apply together, since header fields are cached by the identity of the list. */
  readonly policyLists: Map<number, readonly ResolvedPolicy[]>;
}

/** A rule and its plans. */
export interface CompiledRule {
  readonly rule: ParsedRule;
  /** Whether its charges depend on the plan. */
  readonly isByPlan: boolean;
  /** The charges by plan, for each pattern that has buckets of its own. */
  readonly variants: readonly ReadonlyMap<string, RulePlan>[];
  /** The same for callers with a clearance; `undefined` if it makes no difference. */
  readonly cleared: readonly ReadonlyMap<string, RulePlan>[] | undefined;
  /** Counts the first requests that limits did not apply to; `undefined` once that is not of interest. */
  watch: RuleWatch | undefined;
}

/** The plan of rules whose limits don't depend on it. */
export const ANY_PLAN = "";

/** Options that apply to all policies of a rule set. */
export interface PolicyOptions extends Omit<FailureOptions, "onStoreError"> {
  readonly store: Store;
  readonly prefix: string | undefined;
}

/** A policy, and the text that it was written as. */
export interface WrittenPolicy {
  readonly policy: CompiledPolicy;
  readonly text: LimitText;
}

/** Policies of overrides that are kept. */
const MAX_OVERRIDES = 10_000;

/** Policies that are created in one step. */
const POLICIES_PER_STEP = 50;

/** Creates the policies of one version of the rules. A policy that several rules charge is created once. */
export class PolicyTable {
  private readonly options: PolicyOptions;
  private readonly policies: Map<string, WrittenPolicy> = new Map();
  private readonly parts: Map<string, Part> = new Map();
  private readonly overrides: BoundedMap<string, RuleCharge | "misfit"> = new BoundedMap({
    maxEntries: MAX_OVERRIDES,
    order: "lru",
  });

  constructor(options: PolicyOptions) {
    this.options = options;
  }

  /** How many policies there are, except those of overrides. */
  get size(): number {
    return this.policies.size;
  }

  /** All policies except those of overrides. */
  all(): CompiledPolicy[] {
    return this.written().map(({ policy }) => policy);
  }

  /** The same with the text of each. */
  written(): WrittenPolicy[] {
    return [...this.policies.values()];
  }

  /** The contexts of all limits and of the overrides in use. */
  failurePolicies(): LimiterContext[] {
    const overridden = [...this.overrides].flatMap(([, charge]) => (charge === "misfit" ? [] : [charge.part]));
    return [...this.parts.values(), ...overridden].map(({ context }) => context);
  }

  /** The charge of a limit for one plan; `undefined` if it is unlimited. */
  charge(
    rule: ParsedRule,
    limit: ParsedLimit,
    isOwn: boolean,
    plan: string,
    pattern: string | undefined,
  ): RuleCharge | undefined {
    const { policy, of, text } = specOf(limit, plan);
    if (!policy) return undefined;
    const name = isByPlan(limit.spec) ? `${limit.name}@${plan}` : limit.name;
    const prefix = this.prefixFor(isOwn ? pattern : undefined);
    const id = `${prefix ?? ""}\n${name}`;
    let written = this.policies.get(id);
    if (!written) this.policies.set(id, (written = { policy: compileNamed(policy, name, prefix), text }));
    const part = this.part(id, written.policy, onStoreErrorOf(rule, limit, isOwn));
    return chargeOf(rule, limit, part, { text, of, isOwn });
  }

  /** What is unlimited on a plan. Its override counts what the limit counts on other plans. */
  unlimited(limit: ParsedLimit, isOwn: boolean, pattern: string | undefined): UnlimitedLimit {
    const counted = isByPlan(limit.spec) ? [...limit.spec.values()].find(({ policy }) => policy) : undefined;
    return { limit, of: counted?.of, prefix: this.prefixFor(isOwn ? pattern : undefined) };
  }

  /**
   * The same limit with an override of its policy; `undefined` if that is unlimited. An override that does not fit the
   * limit is not used, and `onMisfit` is called with the reason, once. Those in the rules always fit.
   */
  override(
    rule: ParsedRule,
    overridden: RuleCharge | UnlimitedLimit,
    spec: LimitSpec,
    onMisfit?: (reason: string) => void,
  ): RuleCharge | undefined {
    const { policy, text } = spec;
    if (!policy) return undefined;
    const { limit, prefix, part } = overridden;
    // A limit that is unlimited on every plan counts nothing.
    const of = overridden.of ?? (part ? undefined : spec.of);
    const id = `${prefix ?? ""}\n${limit.name}\n${text}\n${of ?? ""}\n${rule.path}`;
    let found = this.overrides.get(id);
    if (!found) {
      const compiled = compileNamed(policy, `${limit.name}@override`, prefix);
      const isOwn = !rule.budgets.some(({ limits }) => limits.includes(limit));
      const reason = misfitOf(rule, overridden, isOwn, { ...spec, compiled });
      if (reason === undefined) {
        const own = this.newPart(compiled, onStoreErrorOf(rule, limit, isOwn));
        found = chargeOf(rule, limit, own, { text, of, isOwn });
      } else {
        onMisfit?.(reason);
        found = "misfit";
      }
      this.overrides.set(id, found);
    }
    if (found !== "misfit") return found;
    return overridden.part ? overridden : undefined;
  }

  private prefixFor(pattern: string | undefined): string | undefined {
    const { prefix } = this.options;
    if (pattern === undefined) return prefix;
    return prefix === undefined ? hexHash(pattern) : `${prefix}.${hexHash(pattern)}`;
  }

  private part(policyId: string, policy: CompiledPolicy, onStoreError: OnStoreError): Part {
    const id = `${onStoreError}\n${policyId}`;
    let part = this.parts.get(id);
    if (!part) this.parts.set(id, (part = this.newPart(policy, onStoreError)));
    return part;
  }

  private newPart(policy: CompiledPolicy, onStoreError: OnStoreError): Part {
    const { store, prefix: _, ...failure } = this.options;
    const context = parseFailureOptions({ ...failure, onStoreError }, policy, store);
    const observed = observerPort(failure.observer)?.policy(policy, store);
    return { engine: engineOf(store), policy, context, observed };
  }
}

/** Compiles rules. Throws if the store can't count a policy. */
export function* compileRules(
  parsed: ParsedRules,
  table: PolicyTable,
): Steps<{ rules: CompiledRule[]; fallback: CompiledRule }> {
  const rules: CompiledRule[] = [];
  let policies = 0;
  for (const rule of parsed.rules) {
    rules.push(compileRule(rule, parsed.plans, table));
    if (table.size - policies < POLICIES_PER_STEP) continue;
    policies = table.size;
    yield;
  }
  return { rules, fallback: compileRule(parsed.fallback, parsed.plans, table) };
}

function compileRule(rule: ParsedRule, plans: readonly string[], table: PolicyTable): CompiledRule {
  const withBudgets = (own: readonly ParsedLimit[]): RuleLimit[] => [
    ...own.map((limit) => ({ limit, isOwn: true })),
    ...rule.budgets.flatMap((budget) => budget.limits.map((limit) => ({ limit, isOwn: false }))),
  ];
  const limits = withBudgets(rule.limits);
  const cleared = rule.cleared && withBudgets(rule.cleared);
  const dependsOnPlan = [...limits, ...(cleared ?? [])].some(({ limit }) => isByPlan(limit.spec));
  const compile = (limits: readonly RuleLimit[]): CompiledRule["variants"] =>
    compileVariants(rule, limits, dependsOnPlan ? plans : [ANY_PLAN], table);
  return {
    rule,
    isByPlan: dependsOnPlan,
    variants: compile(limits),
    cleared: cleared && compile(cleared),
    watch: undefined,
  };
}

/** A limit, and whether it is the rule's own or that of a budget. */
interface RuleLimit {
  readonly limit: ParsedLimit;
  readonly isOwn: boolean;
}

function compileVariants(
  rule: ParsedRule,
  limits: readonly RuleLimit[],
  plans: readonly string[],
  table: PolicyTable,
): CompiledRule["variants"] {
  const patterns = rule.perPattern ? rule.patterns.map(({ text }) => text) : [undefined];
  return patterns.map((pattern) => {
    const compilePlan = (plan: string): [string, RulePlan] => {
      const charges = limits.flatMap(({ limit, isOwn }) => table.charge(rule, limit, isOwn, plan, pattern) ?? []);
      for (const { part, mode } of charges) {
        part.engine.store.check?.(part.policy, charges.length > 1);
        if (mode !== "take") checkHoldable(part);
      }
      const unlimited = limits.flatMap(({ limit, isOwn }) =>
        specOf(limit, plan).policy ? [] : [table.unlimited(limit, isOwn, pattern)],
      );
      return [plan, { charges, unlimited, policyLists: new Map() }];
    };
    return new Map(plans.map(compilePlan));
  });
}

function chargeOf(
  rule: ParsedRule,
  limit: ParsedLimit,
  part: Part,
  { text, of, isOwn }: { text: LimitText; of: string | undefined; isOwn: boolean },
): RuleCharge {
  const isLease = part.policy.kind === "concurrency";
  const { resolved } = part.policy;
  return {
    limit,
    text,
    part,
    prefix: resolved.prefix,
    resolved: of === undefined ? resolved : Object.freeze({ ...resolved, unit: of }),
    of,
    amount: isOwn || isLease ? 1 : rule.weight,
    mode: isLease ? "lease" : of !== undefined && rule.holdMs !== undefined ? "hold" : "take",
    isUniversal: isOfAllCallers(limit.identities) || rule.limits.some((other) => isWithout(other, limit.per)),
    group: groupOf(rule, limit, isOwn),
  };
}

/** Why an override can't replace a limit: the checks of overrides in the rules, for those of a function. */
function misfitOf(
  rule: ParsedRule,
  { limit, of }: Pick<RuleCharge, "limit" | "of">,
  isOwn: boolean,
  spec: CompiledSpec,
): string | undefined {
  const specs = isByPlan(limit.spec) ? [...limit.spec.values()] : [limit.spec];
  const limited = specs.filter(({ policy }) => policy);
  if (limited.length > 0 && !limited.some((written) => written.of === spec.of)) {
    return `must count ${of ?? "requests"}, as the limit does, but is ${show(spec.text)}`;
  }
  if (!isOwn && countsWeight(spec) && spec.compiled.limit < rule.weight) {
    return `has a capacity (${spec.compiled.limit}) below the weight of rule ${show(rule.name)} (${rule.weight})`;
  }
  return rule.holdMs === undefined ? undefined : cannotHold(spec);
}

function groupOf(rule: ParsedRule, limit: ParsedLimit, isOwn: boolean): RuleCharge["group"] {
  if (!isOwn) return "enforced";
  return rule.mode === "shadow" ? "shadow" : limit.action === "flag" ? "flag" : "enforced";
}

/** A limit that is only counted must not fail a request, so it is not counted while the store is unavailable. */
function onStoreErrorOf(rule: ParsedRule, limit: ParsedLimit, isOwn: boolean): OnStoreError {
  const { onStoreError } = rule;
  return onStoreError === "throw" && groupOf(rule, limit, isOwn) !== "enforced" ? "open" : onStoreError;
}

function compileNamed(policy: Policy, name: string, prefix: string | undefined): CompiledPolicy {
  return compilePolicy({ ...policy, name, ...(prefix === undefined ? {} : { prefix }) } as Policy);
}
