/** Decides charges to buckets that have holds, or get one. */
import type { Charge, HoldEngine } from "../core/charge.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { unchanged } from "../core/decide.ts";
import type { Decision } from "../core/decision.ts";
import { recordGrant } from "../core/grant.ts";
import type { DecideResult, HeldState, State, StoredHold } from "../core/state.ts";
import { isHeldState } from "../core/state.ts";
import { blockEngine } from "../penalties/decide-block.ts";
import { HeldBucket } from "./held-state.ts";
import { ALL_MODES } from "./hold-modes.ts";

/** Decides charges in modes `hold` and `settle`, and all charges to buckets with holds. */
export const holdEngine: HoldEngine = {
  fits: (state, charge, now) =>
    isPenalty(charge)
      ? blockEngine.fits(state, charge, now)
      : fitsHeld(new HeldBucket(state, charge.policy, now), charge),

  decide(state, charge, now) {
    if (isPenalty(charge)) return blockEngine.decide(state, charge, now);
    return decideHeld(new HeldBucket(state, charge.policy, now), state, charge, now);
  },

  deny(state, charge, now, isViolation) {
    if (isPenalty(charge)) return blockEngine.deny(state, charge, now, isViolation);
    const bucket = new HeldBucket(state, charge.policy, now);
    return isViolation && ALL_MODES[charge.mode].applyIfDenied
      ? strikeHeld(bucket, state, charge)
      : denyHeld(bucket, state, charge);
  },

  describe(state: State, policy: CompiledPolicy, now: number) {
    const { holds, debt } = new HeldBucket(state, policy, now).describe();
    return { ...(holds.length > 0 && { holds }), ...(debt > 0 && { debt }) };
  },
};

/** Whether holding means blocking. */
function isPenalty({ policy }: Charge): boolean {
  return policy.kind === "penalty";
}

/** Whether a charge admits its group. */
function fitsHeld(bucket: HeldBucket, { mode, cost, hold }: Charge): boolean {
  if (!ALL_MODES[mode].asks) return true;
  return mode === "hold" ? bucket.canHold(hold?.id as string, cost) : bucket.fits(cost);
}

/** Applies a charge if it fits. `state` is the stored state of the bucket. */
function decideHeld(bucket: HeldBucket, state: State | undefined, charge: Charge, now: number): DecideResult {
  if (!fitsHeld(bucket, charge)) return denyHeld(bucket, state, charge);
  const { mode, cost, hold, grantEndsAt, policy } = charge;
  switch (ALL_MODES[mode].apply) {
    case "add": {
      const takes = cost > 0 && policy.kind !== "concurrency";
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
function denyHeld(bucket: HeldBucket, state: State | undefined, charge: Charge): DecideResult {
  const { mode, cost, hold, policy } = charge;
  if (mode === "settle") return result(bucket, state, bucket.missing(), false);
  const fits = fitsHeld(bucket, charge);
  // Like a bucket without holds: a denied charge that is not only a look clamps a state dated in the future.
  const clamps = !fits && cost <= policy.limit && mode !== "peek" && bucket.isInFuture;
  const asked = ALL_MODES[mode].asks ? cost : 0;
  return result(bucket, state, bucket.decision(fits, asked, mode === "hold" ? hold?.id : undefined), clamps);
}

/** Takes the cost of a charge whose group is denied by another one, and decides by the state after it. */
function strikeHeld(bucket: HeldBucket, state: State | undefined, charge: Charge): DecideResult {
  const { cost, policy } = charge;
  const takes = cost > 0 && policy.kind !== "concurrency";
  if (takes) bucket.take(cost);
  return result(bucket, state, bucket.decision(bucket.fits(cost), cost), takes);
}

function result(bucket: HeldBucket, state: State | undefined, decision: Decision, changed: boolean): DecideResult {
  if (!changed) return unchanged(state, decision);
  return { decision, state: withEngine(bucket.state()), changed, ttlMs: Math.max(1, decision.resetAfterMs) };
}

/** A state with holds that brings the engine on its prototype. Its own members are plain data, so a store may serialise it. */
class CarriedState implements HeldState {
  readonly base: readonly number[];
  readonly writtenAt: number;
  readonly holds: readonly StoredHold[];
  declare readonly debt?: HeldState["debt"];

  constructor({ base, writtenAt, holds, debt }: HeldState) {
    this.base = base;
    this.writtenAt = writtenAt;
    this.holds = holds;
    if (debt) this.debt = debt;
  }

  get engine(): HoldEngine {
    return holdEngine;
  }
}

function withEngine(state: State): State {
  return isHeldState(state) ? new CarriedState(state) : state;
}
