/** The penalties that a middleware charges with the limits of its rules. */

import type { Part } from "../core/apply.ts";
import { partsOf } from "../core/part-charges.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import { isFact } from "../http/identity/identities.ts";
import type { RequestPenalty } from "../http/request-charges.ts";
import { type Known, PENDING, type RequestValues } from "../http/request-values.ts";
import type { ActiveCharge } from "./charge-group.ts";
import type { RuleCharge, RulePlan } from "./compiled-rules.ts";
import type { FoundRule } from "./found-rules.ts";
import type { ParsedRule } from "./parsed-rules.ts";

/** A penalty as a charge that records strikes, and as one that only denies while the key is blocked. */
interface PenaltyCharges {
  readonly identities: readonly string[];
  /** The facts among its identities. */
  readonly facts: readonly string[];
  readonly isStruck: boolean;
  readonly strike: RuleCharge;
  readonly peek: RuleCharge;
}

/** The penalties of one middleware. */
export class RulePenalties {
  private readonly penalties: readonly PenaltyCharges[];
  /** The policies of charges that apply together, since header fields are cached by the identity of the list. */
  private readonly policyLists: WeakMap<RulePlan, Map<number, readonly ResolvedPolicy[]>> = new WeakMap();

  constructor(penalties: readonly RequestPenalty[]) {
    this.penalties = penalties.map(({ identities, limiter, isStruck }) => {
      const [part] = partsOf(limiter) as [Part];
      const facts = identities.filter(isFact);
      const chargeOf = (mode: RuleCharge["mode"]): RuleCharge => penaltyCharge(part, identities, mode);
      return { identities, facts, isStruck, strike: chargeOf("penalty"), peek: chargeOf("peek") };
    });
  }

  /** The lists of policies of a plan, by the charges that apply. */
  listsFor(plan: RulePlan): Map<number, readonly ResolvedPolicy[]> {
    let lists = this.policyLists.get(plan);
    if (!lists) this.policyLists.set(plan, (lists = new Map()));
    return lists;
  }

  /** Adds the penalties of a request to its charges. Returns which of them apply, as bits. */
  addTo(active: ActiveCharge[], rules: readonly FoundRule[], values: RequestValues): Known<number> {
    const [{ compiled }] = rules as [FoundRule];
    const isViolation = rules.some(({ compiled }) => compiled.rule.penalty);
    const found: ActiveCharge[] = [];
    let applied = 0;
    let isPending = false;
    for (let i = 0; i < this.penalties.length; i++) {
      const penalty = this.penalties[i] as PenaltyCharges;
      if (!isViolation && !rules.some(({ compiled }) => uses(compiled.rule, penalty.facts))) continue;
      const key = values.penaltyKey(penalty.identities);
      if (key === PENDING) isPending = true;
      else if (key !== undefined) {
        const isStruck = isViolation && penalty.isStruck && values.mayStrike(penalty.identities);
        const charge = isStruck ? penalty.strike : penalty.peek;
        found.push({ rule: compiled.rule, charge, key, amount: 1 });
        applied |= 1 << i;
      }
    }
    if (isPending) return PENDING;
    active.push(...found);
    return applied;
  }
}

/** Whether a rule limits by these facts. Others may not be known for its requests, so they are not read for it. */
function uses({ limits, budgets }: ParsedRule, facts: readonly string[]): boolean {
  if (facts.length === 0) return true;
  const all = [...limits, ...budgets.flatMap((budget) => budget.limits)];
  return all.some(({ identities }) => facts.every((fact) => identities.includes(fact)));
}

/** The charge of a penalty. It is not a limit that all callers have. */
function penaltyCharge(part: Part, identities: readonly string[], mode: RuleCharge["mode"]): RuleCharge {
  const { resolved } = part.policy;
  const spec = { text: "unlimited", policy: undefined, of: undefined } as const;
  return {
    limit: { name: resolved.name, per: identities.join("+"), identities, action: "deny", spec },
    text: "unlimited",
    part,
    prefix: resolved.prefix,
    resolved,
    of: undefined,
    amount: 1,
    mode,
    isUniversal: false,
    group: "enforced",
  };
}
