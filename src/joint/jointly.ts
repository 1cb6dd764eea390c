/** Charges to several policies, all or nothing. In one shard of one store that is one atomic step. */

import { monotonicMs } from "../base/clock.ts";
import { optionError, SluiceError } from "../base/errors.ts";
import { allOf, andThen, type MaybePromise } from "../base/maybe-promise.ts";
import { type Act, observeSteps, type Part, type PartGroup, REFUND, TAKE, withSteps } from "../core/apply.ts";
import { MAX_CHARGES } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { isGrant } from "../core/grant.ts";
import type { Charging } from "../core/limiter.ts";
import { hasRate, takeCharge } from "../core/part-charges.ts";
import { applyRefunds, refundsOf } from "../core/refunds.ts";
import { originOf } from "../core/store.ts";
import { applyAcrossShards, placeDecisions, type ShardCharges, splitByShard } from "./across-shards.ts";
import { merge } from "./merge.ts";

/** Charges all parts or none. */
export const jointly: Charging = {
  isJoint: true,
  decide: decideJointly,
  refund(charges, decision) {
    if (decision === undefined) return refundJointly(charges);
    if (!isGrant(decision)) return undefined;
    const { parts } = decision;
    if (parts?.length === charges.length) return refundJointly(charges, parts);
    throw optionError("invalid-option", "decision", "a decision of this combination of limiters", decision);
  },
  summarize(parts) {
    const tightest = parts.reduce((least, part) => (part.remaining < least.remaining ? part : least));
    return { ...tightest, parts };
  },
  open(parts) {
    const { syncStore } = (parts[0] as Part).engine;
    const ids = new Set(parts.map(({ policy }) => policy.id));
    const isOneStep =
      ids.size === parts.length &&
      parts.every((part) => part.engine.syncStore === syncStore && hasRate(part.policy) && !part.observed);
    if (!syncStore || !isOneStep) {
      const chargesOf = (key: string, cost: number) => parts.map((part) => takeCharge(part, key, cost));
      return { take: (key, cost) => decideJointly(chargesOf(key, cost), TAKE) as Decision };
    }
    const buckets = parts.map(({ policy }) => syncStore.open(policy));
    return { take: (key, cost) => merge(syncStore.takeAll(buckets, key, cost)) };
  },
};

/** Throws if parts can't be charged together: too many, or two plans of one bucket. */
export function checkTogether(option: string, parts: readonly (Part & { readonly key?: string })[]): void {
  const count = parts.length;
  if (count === 0) throw optionError("invalid-option", option, "a list of at least one limit", parts);
  if (count > MAX_CHARGES) {
    throw optionError("too-many-charges", option, `a list of at most ${MAX_CHARGES} limits`, count);
  }
  for (const { engine, policy, key } of parts) {
    if (count > 1) engine.store.check?.(policy, true);
    const rival = parts.find(
      (other) =>
        other.policy.id === policy.id && other.key === key && originOf(other.engine.store) === originOf(engine.store),
    );
    if (!rival || rival.policy.fingerprint === policy.fingerprint) continue;
    const message = `${option} contains two plans of the shared policy "${policy.name}". Charge one of them at a time.`;
    const details = { option, expected: "one plan of a shared bucket, not two at once", received: policy.name };
    throw new SluiceError("policy-conflict", message, details);
  }
}

/** Decides charges with keys of their own, all or nothing. Without a promise if every store is synchronous. */
export function decideJointly(charges: PartGroup, act: Act): MaybePromise<Decision> {
  return andThen(applyJointly(charges, act), ([decisions]) => merge(decisions as Decision[]));
}

/** The decisions on the charges, as one group. */
function applyJointly(charges: PartGroup, act: Act): MaybePromise<Decision[][]> {
  const shards = splitByShard(charges);
  const [only] = shards as [ShardCharges];
  if (shards.length === 1 && only.charges.length === charges.length) return only.engine.apply([only.charges], act);
  // Denials by several stores are not cached.
  const isOneStore = shards.every(({ engine }) => engine === only.engine);
  const steps = isOneStore ? only.engine.steps : observeSteps;
  // Synchronous stores need no deadline.
  const sentAt = shards.every(({ engine }) => engine.syncStore) ? 0 : monotonicMs();
  return withSteps(steps, [charges], act, sentAt, () =>
    andThen(applyAcrossShards(shards, act, sentAt), (decisions) => [placeDecisions(shards, decisions, charges.length)]),
  );
}

/** Refunds charges; with the decisions on them, no more than is still in use of each grant. */
export function refundJointly(charges: PartGroup, decisions?: readonly Decision[]): MaybePromise<unknown> {
  const calls = splitByShard(charges).map((shard) => () => {
    const own = decisions && shard.indexes.map(([index]) => decisions[index as number] as Decision);
    return applyRefunds(refundsOf(shard.charges, own), REFUND);
  });
  return allOf<unknown>(calls);
}
