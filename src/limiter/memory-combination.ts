/** Several policies in one memory store as one limiter, without what `combine` needs for stores elsewhere. */

import { compilePolicy } from "../algorithms/compile-policy.ts";
import { type Charge, checkCost, checkKey, MAX_CHARGES } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { optionError } from "../core/errors.ts";
import { isGrant, refundOf } from "../core/grant.ts";
import type { Policy, ResolvedPolicy } from "../core/policy.ts";
import type { PolicyText } from "../core/policy-text.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { merge } from "./merge.ts";

/** What a middleware needs of a limiter. */
export interface MemoryCombination {
  consumeSync(key: string, cost?: number): Decision;
  consume(key: string, cost?: number): Promise<Decision>;
  refund(key: string, cost: number, decision?: Decision): Promise<void>;
  getPolicies(): readonly ResolvedPolicy[];
}

/** All policies or none, with the same key and cost. */
export function memoryCombination(policies: readonly (Policy | PolicyText)[]): MemoryCombination {
  const all = policies.map((policy) => compilePolicy(policy));
  if (all.length > MAX_CHARGES) {
    throw optionError("too-many-charges", "policies", `at most ${MAX_CHARGES} policies`, all.length);
  }
  const twice = all.find(
    ({ qualifiedName }, i) => all.findIndex((other) => other.qualifiedName === qualifiedName) !== i,
  );
  if (twice) throw optionError("policy-conflict", "policies", "each policy once, by a name of its own", twice.name);
  const store = memoryStore();
  const buckets = all.map((policy) => store.open(policy));
  const resolved = Object.freeze(all.map(({ resolved }) => resolved));
  const consumeSync = (key: string, cost = 1): Decision => {
    checkKey(key);
    checkCost(cost);
    return merge(store.takeAll(buckets, key, cost));
  };
  return {
    consumeSync,
    consume: async (key, cost) => consumeSync(key, cost),
    async refund(key, cost, decision) {
      checkKey(key);
      checkCost(cost);
      if (decision && !isGrant(decision)) return;
      const charges: Charge[] = [];
      all.forEach((policy, i) => {
        const refund = refundOf(decision?.parts?.[i], cost);
        if (refund) charges.push({ policy, key, cost: refund.cost, mode: "refund", grantEndsAt: refund.endsAt });
      });
      store.applySync(charges);
    },
    getPolicies: () => resolved,
  };
}
