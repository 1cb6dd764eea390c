/** One step of any algorithm. It reads and writes the cells it is given and touches nothing else. */

import type { CompiledPolicy } from "../core/compile.ts";
import type { Decision } from "../core/decision.ts";
import { recordGrant } from "../core/grant.ts";
import type { Algorithm, Cells } from "./algorithm.ts";

/** Takes `cost` if it fits. A denial leaves the cells alone, except to heal a state from the future. */
export function take(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  cost: number,
  now: number,
): Decision {
  // Engines inline only so much code along one path: the longer way stands apart from the fast one.
  if (algorithm.take) return algorithm.take(cells, at, policy, cost, now);
  return takeGenerally(algorithm, cells, at, policy, cost, now);
}

function takeGenerally(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  cost: number,
  now: number,
): Decision {
  const used = algorithm.used(cells, at, policy, now);
  const over = excess(used, policy, cost);
  if (over > 0) {
    if (cost <= policy.limit) healFrom(algorithm, cells, at, policy, now, used);
    return deny(algorithm, cells, at, policy, now, used, cost, over);
  }
  if (cost > 0) algorithm.add(cells, at, policy, now, used, cost);
  const decision = allow(algorithm, cells, at, policy, now, used + cost * policy.unitsPerToken, used);
  return recordGrant(decision, now + decision.resetAfterMs, cost);
}

/** What `take` would answer, with the figures before taking. Writes nothing. */
export function peek(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  cost: number,
  now: number,
): Decision {
  const used = algorithm.used(cells, at, policy, now);
  const over = excess(used, policy, cost);
  if (over > 0) return deny(algorithm, cells, at, policy, now, used, cost, over);
  return allow(algorithm, cells, at, policy, now, used, used);
}

/** What `take` does to the cells when it denies: heals a state from the future, and nothing else. */
export function clampToNow(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  cost: number,
  now: number,
): void {
  const used = algorithm.used(cells, at, policy, now);
  if (cost <= policy.limit && excess(used, policy, cost) > 0) healFrom(algorithm, cells, at, policy, now, used);
}

function healFrom(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  now: number,
  used: number,
): void {
  if (algorithm.isInFuture(cells, at, policy, now, used)) algorithm.add(cells, at, policy, now, used, 0);
}

/** The decision on a charge that was made elsewhere, and took `taken`. The cells are as it left them. */
export function report(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  cost: number,
  now: number,
  allowed: boolean,
  taken: number,
): Decision {
  const used = algorithm.used(cells, at, policy, now);
  if (!allowed) return deny(algorithm, cells, at, policy, now, used, cost, excess(used, policy, cost));
  return allow(algorithm, cells, at, policy, now, used, used - taken * policy.unitsPerToken);
}

/** Whether `take` would allow `cost`. */
export function fits(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  cost: number,
  now: number,
): boolean {
  return excess(algorithm.used(cells, at, policy, now), policy, cost) <= 0;
}

/** Gives `cost` back, never above full, and of a grant whose end is known no more than is still in use of it. */
export function refund(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  cost: number,
  now: number,
  grantEndsAt?: number,
): void {
  if (grantEndsAt !== undefined && grantEndsAt <= now) return;
  const used = algorithm.used(cells, at, policy, now);
  if (used === 0) return;
  algorithm.refund(cells, at, policy, now, used, cost, grantEndsAt);
  // A full bucket is an untouched one: what is written for it would lie ahead of a clock that steps back.
  if (algorithm.used(cells, at, policy, now) > 0) return;
  if (algorithm.list) (cells[at] as number[]).length = 0;
  else cells.fill(0 as never, at, at + algorithm.width);
}

/** The part of the limit in use, from 0 to 1. At 0 the bucket is full and may be forgotten. */
export function usage(algorithm: Algorithm, cells: Cells, at: number, policy: CompiledPolicy, now: number): number {
  return Math.min(1, algorithm.used(cells, at, policy, now) / policy.capacityUnits);
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
  return {
    allowed: true,
    policy: name,
    limit,
    remaining,
    resetAfterMs,
    nextAfterMs,
    delayMs: Math.ceil(before / unitsPerMs),
  };
}

function deny(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  policy: CompiledPolicy,
  now: number,
  used: number,
  cost: number,
  over: number,
): Decision {
  const { remaining, resetAfterMs, nextAfterMs } = allow(algorithm, cells, at, policy, now, used, used);
  const { name, limit } = policy;
  const retryAfterMs = cost > limit ? null : algorithm.wait(cells, at, policy, now, over);
  return { allowed: false, policy: name, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
}

/** By how much `cost` does not fit; it fits at 0 or less. In this order every step is exact. */
function excess(used: number, { capacityUnits, unitsPerToken }: CompiledPolicy, cost: number): number {
  // Cost 0 always fits, also when a lowered limit or a clock that stepped back has put more in use than fits.
  return cost === 0 ? 0 : used - (capacityUnits - cost * unitsPerToken);
}
