/** A group of charges by the pure algorithms, for stores that keep states as values: all or none, in one turn. */

import type { Charge, Group } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import type { AlgorithmName } from "../core/policy.ts";
import { decide } from "./decide.ts";

/** Where states are read. */
export interface States {
  /** The state of a bucket, if it has one that the algorithm can read. */
  read(bucket: string, algorithm: AlgorithmName): readonly number[] | undefined;
}

/** What has to be written, and how long each of it has to be kept. */
export type Changes = Map<string, { readonly state: readonly number[]; readonly expires: number }>;

/** Decides a group whose keys are buckets. What it changes is noted, and seen by those that come after it. */
export function decideGroup(group: Group, states: States, now: number, changes: Changes): Decision[] {
  const apply = (charge: Charge): Decision => {
    const { key: bucket, policy } = charge;
    const before = changes.get(bucket)?.state ?? states.read(bucket, policy.algorithm);
    const { decision, state, changed, ttlMs } = decide(before, charge, now);
    if (changed) changes.set(bucket, { state, expires: now + ttlMs });
    return decision;
  };
  const look = (charge: Charge, cost: number): Decision => apply({ ...charge, cost, mode: "peek" });

  const [only] = group;
  if (only && group.length === 1) return [apply(only)];
  // What each would be told alone. A refund is never in the way.
  const fits = group.map((charge) => charge.mode === "refund" || look(charge, charge.cost).allowed);
  const every = !fits.includes(false);
  return group.map((charge, i) => {
    // Whoever is denied alone is denied by `take`, which heals a state from the future.
    if (every || !fits[i]) return apply(charge);
    return look(charge, charge.mode === "refund" ? 0 : charge.cost);
  });
}
