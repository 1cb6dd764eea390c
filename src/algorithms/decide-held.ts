/** Decides charges to buckets that have holds, or get one. */
import type { Charge } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { recordGrant } from "../core/grant.ts";
import { algorithms } from "./algorithms.ts";
import type { DecideResult } from "./decide-result.ts";
import type { State } from "./held-state.ts";
import type { HeldBucket } from "./holds.ts";
import { MODES } from "./modes.ts";

/** Whether a charge admits its group. */
export function fitsHeld(bucket: HeldBucket, { mode, cost, hold }: Charge): boolean {
  if (!MODES[mode].asks) return true;
  return mode === "hold" ? bucket.canHold(hold?.id as string, cost) : bucket.fits(cost);
}

/** Applies a charge if it fits. `state` is the stored state of the bucket. */
export function decideHeld(bucket: HeldBucket, state: State | undefined, charge: Charge, now: number): DecideResult {
  if (!fitsHeld(bucket, charge)) return denyHeld(bucket, state, charge);
  const { mode, cost, hold, grantEndsAt, policy } = charge;
  switch (MODES[mode].apply) {
    case "add": {
      const takes = cost > 0 && !algorithms[policy.algorithm].holdsOnly;
      const endsAt = takes ? bucket.take(cost) : now;
      return result(bucket, state, recordGrant(bucket.decision(true, cost), endsAt, cost), takes);
    }
    case "subtract": {
      const changed = bucket.refund(cost, grantEndsAt);
      return result(bucket, state, bucket.decision(true, 0), changed);
    }
    case "clear":
      bucket.clear();
      return { decision: bucket.decision(true, 0), state: [], changed: true, ttlMs: 1 };
    case "hold":
      bucket.hold(hold?.id as string, cost, hold?.forMs as number);
      return result(bucket, state, bucket.decision(true, cost), true);
    case "settle": {
      if (!bucket.settle(hold?.id as string, cost)) return result(bucket, state, bucket.missing(), false);
      const decision = bucket.decision(true, 0);
      const { forgiven } = bucket;
      return result(bucket, state, forgiven > 0 ? { ...decision, forgiven } : decision, true);
    }
    default:
      return result(bucket, state, bucket.decision(true, cost), false);
  }
}

/** The decision on a charge of a denied group: what it would have been alone, without its effect. */
export function denyHeld(bucket: HeldBucket, state: State | undefined, charge: Charge): DecideResult {
  const { mode, cost, hold, policy } = charge;
  if (mode === "settle") return result(bucket, state, bucket.missing(), false);
  const fits = fitsHeld(bucket, charge);
  // Like a bucket without holds: a denied charge that is not only a look clamps a state dated in the future.
  const clamps = !fits && cost <= policy.limit && mode !== "peek" && bucket.isInFuture;
  const asked = MODES[mode].asks ? cost : 0;
  return result(bucket, state, bucket.decision(fits, asked, mode === "hold" ? hold?.id : undefined), clamps);
}

/** Takes the cost of a charge whose group is denied by another one, and decides by the state after it. */
export function strikeHeld(bucket: HeldBucket, state: State | undefined, charge: Charge): DecideResult {
  const { cost, policy } = charge;
  const takes = cost > 0 && !algorithms[policy.algorithm].holdsOnly;
  if (takes) bucket.take(cost);
  return result(bucket, state, bucket.decision(bucket.fits(cost), cost), takes);
}

function result(bucket: HeldBucket, state: State | undefined, decision: Decision, changed: boolean): DecideResult {
  const next = changed ? bucket.state() : (state ?? []);
  return { decision, state: next, changed, ttlMs: Math.max(1, decision.resetAfterMs) };
}
