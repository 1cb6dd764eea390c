/** The steps of every algorithm. They read and write the cells they are given, and nothing else. */
import type { Algorithm, Cells, CompiledPolicy } from "./compiled-policy.ts";
import type { Decision } from "./decision.ts";
import { recordGrant } from "./grant.ts";

/** One bucket: its policy and where its state is. */
export interface Bucket {
  /** The algorithm of its policy. */
  readonly algorithm: Algorithm;
  /** The array that contains its state. */
  readonly cells: Cells;
  /** Index of its first cell. */
  readonly at: number;
  /** The policy that it is charged under. */
  readonly policy: CompiledPolicy;
}

/**
 * Takes `cost` if it fits. A denial leaves the cells alone, except to clamp a state dated in the future. Its arguments
 * are positional, unlike those of the other steps: this is the hot path, and it allocates nothing but the decision.
 */
export function take(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  cost: number,
  now: number,
): Decision {
  if (algorithm.take) return algorithm.take(cells, at, policy, cost, now);
  const used = algorithm.used(cells, at, policy, now);
  const over = excess(used, policy, cost);
  if (over > 0) {
    if (cost <= policy.limit && algorithm.isInFuture(cells, at, policy, now, used)) {
      algorithm.add(cells, at, policy, now, used, 0);
    }
    return deny({ algorithm, cells, at, policy }, now, used, cost);
  }
  if (cost > 0) algorithm.add(cells, at, policy, now, used, cost);
  const decision = allow(algorithm, cells, at, policy, now, used + cost * policy.unitsPerToken, used);
  return recordGrant(decision, now + decision.resetAfterMs, cost);
}

/** Returns what `take` would decide, with the numbers before taking. Writes nothing. */
export function peek(bucket: Bucket, cost: number, now: number): Decision {
  const { algorithm, cells, at, policy } = bucket;
  const used = algorithm.used(cells, at, policy, now);
  if (excess(used, policy, cost) > 0) return deny(bucket, now, used, cost);
  return allow(algorithm, cells, at, policy, now, used, used);
}

/** Clamps a state dated in the future, as a denied `take` does. Changes nothing else. */
export function clampToNow({ algorithm, cells, at, policy }: Bucket, cost: number, now: number): void {
  const used = algorithm.used(cells, at, policy, now);
  if (cost > policy.limit || excess(used, policy, cost) <= 0) return;
  if (algorithm.isInFuture(cells, at, policy, now, used)) algorithm.add(cells, at, policy, now, used, 0);
}

/** Adds `cost`, whether it fits or not. */
export function add({ algorithm, cells, at, policy }: Bucket, cost: number, now: number): void {
  algorithm.add(cells, at, policy, now, algorithm.used(cells, at, policy, now), cost);
}

/** Whether `take` would allow `cost`. */
export function fits({ algorithm, cells, at, policy }: Bucket, cost: number, now: number): boolean {
  return excess(algorithm.used(cells, at, policy, now), policy, cost) <= 0;
}

/** Refunds `cost`, never above full, and of a grant whose end is known no more than is still in use of it. */
export function refund(bucket: Bucket, cost: number, now: number, grantEndsAt?: number): void {
  const { algorithm, cells, at, policy } = bucket;
  if (grantEndsAt !== undefined && grantEndsAt <= now) return;
  const used = algorithm.used(cells, at, policy, now);
  if (used === 0) return;
  algorithm.refund(cells, at, policy, now, used, cost, grantEndsAt);
  // A full bucket is an untouched one: anything else would be dated in the future after a clock step back.
  if (algorithm.used(cells, at, policy, now) === 0) clear(bucket);
}

/** Makes the bucket an untouched one. */
function clear({ algorithm, cells, at }: Bucket): void {
  if (algorithm.list) (cells[at] as number[]).length = 0;
  else cells.fill(0 as never, at, at + algorithm.width);
}

/** The used share of the limit, from 0 to 1. At 0 the bucket is full and may be deleted. */
export function usage({ algorithm, cells, at, policy }: Bucket, now: number): number {
  return Math.min(1, algorithm.used(cells, at, policy, now) / policy.capacityUnits);
}

/** The decision on a charge that was applied elsewhere, and took `taken`. The cells are as it left them. */
export function report(bucket: Bucket, cost: number, now: number, allowed: boolean, taken: number): Decision {
  const { algorithm, cells, at, policy } = bucket;
  const used = algorithm.used(cells, at, policy, now);
  if (!allowed) return deny(bucket, now, used, cost);
  return allow(algorithm, cells, at, policy, now, used, used - taken * policy.unitsPerToken);
}

function allow(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  now: number,
  used: number,
  before: number,
): Decision {
  const { name, limit, capacityUnits, unitsPerToken, unitsPerMs } = policy;
  const remaining = used < capacityUnits ? Math.floor((capacityUnits - used) / unitsPerToken) : 0;
  const resetAfterMs = used > 0 ? algorithm.reset(cells, at, policy, now, used) : 0;
  const nextAfterMs = used > 0 ? algorithm.wait(cells, at, policy, now, excess(used, policy, remaining + 1)) : 0;
  if (!algorithm.queues) return { allowed: true, policy: name, limit, remaining, resetAfterMs, nextAfterMs };
  const delayMs = Math.ceil(before / unitsPerMs);
  return { allowed: true, policy: name, limit, remaining, resetAfterMs, nextAfterMs, delayMs };
}

function deny({ algorithm, cells, at, policy }: Bucket, now: number, used: number, cost: number): Decision {
  const { remaining, resetAfterMs, nextAfterMs } = allow(algorithm, cells, at, policy, now, used, used);
  const { name, limit } = policy;
  const retryAfterMs = cost > limit ? null : algorithm.wait(cells, at, policy, now, excess(used, policy, cost));
  return { allowed: false, policy: name, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
}

/** By how much `cost` does not fit; it fits at 0 or less. In this order every step is exact. */
function excess(used: number, { capacityUnits, unitsPerToken }: CompiledPolicy, cost: number): number {
  // Cost 0 always fits, also if a lowered limit or a clock step back has put more in use than the limit.
  return cost === 0 ? 0 : used - (capacityUnits - cost * unitsPerToken);
}
