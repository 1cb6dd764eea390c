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
  terms: CompiledPolicy,
  cost: number,
  now: number,
): Decision {
  // Engines inline only so much code along one path: the longer way stands apart from the fast one.
  if (algorithm.take) return algorithm.take(cells, at, terms, cost, now);
  return takeGenerally(algorithm, cells, at, terms, cost, now);
}

function takeGenerally(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  terms: CompiledPolicy,
  cost: number,
  now: number,
): Decision {
  const used = algorithm.used(cells, at, terms, now);
  const over = excess(used, terms, cost);
  if (over > 0) {
    if (cost <= terms.limit) healFrom(algorithm, cells, at, terms, now, used);
    return deny(algorithm, cells, at, terms, now, used, cost, over);
  }
  if (cost > 0) algorithm.add(cells, at, terms, now, used, cost);
  const decision = allow(algorithm, cells, at, terms, now, used + cost * terms.unitsPerToken, used);
  return recordGrant(decision, now + decision.resetAfterMs, cost);
}

/** What `take` would answer, with the figures before taking. Writes nothing. */
export function peek(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  terms: CompiledPolicy,
  cost: number,
  now: number,
): Decision {
  const used = algorithm.used(cells, at, terms, now);
  const over = excess(used, terms, cost);
  if (over > 0) return deny(algorithm, cells, at, terms, now, used, cost, over);
  return allow(algorithm, cells, at, terms, now, used, used);
}

/** What `take` does to the cells when it denies: heals a state from the future, and nothing else. */
export function clampToNow(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  terms: CompiledPolicy,
  cost: number,
  now: number,
): void {
  const used = algorithm.used(cells, at, terms, now);
  if (cost <= terms.limit && excess(used, terms, cost) > 0) healFrom(algorithm, cells, at, terms, now, used);
}

function healFrom(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  terms: CompiledPolicy,
  now: number,
  used: number,
): void {
  if (algorithm.isInFuture(cells, at, terms, now, used)) algorithm.add(cells, at, terms, now, used, 0);
}

/** The decision on a charge that was made elsewhere, and took `taken`. The cells are as it left them. */
export function report(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  terms: CompiledPolicy,
  cost: number,
  now: number,
  allowed: boolean,
  taken: number,
): Decision {
  const used = algorithm.used(cells, at, terms, now);
  if (!allowed) return deny(algorithm, cells, at, terms, now, used, cost, excess(used, terms, cost));
  return allow(algorithm, cells, at, terms, now, used, used - taken * terms.unitsPerToken);
}

/** Whether `take` would allow `cost`. */
export function fits(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  terms: CompiledPolicy,
  cost: number,
  now: number,
): boolean {
  return excess(algorithm.used(cells, at, terms, now), terms, cost) <= 0;
}

/** Gives `cost` back, never above full, and of a grant whose end is known no more than is still in use of it. */
export function refund(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  terms: CompiledPolicy,
  cost: number,
  now: number,
  grantEndsAt?: number,
): void {
  if (grantEndsAt !== undefined && grantEndsAt <= now) return;
  const used = algorithm.used(cells, at, terms, now);
  if (used === 0) return;
  algorithm.refund(cells, at, terms, now, used, cost, grantEndsAt);
  // A full bucket is an untouched one: what is written for it would lie ahead of a clock that steps back.
  if (algorithm.used(cells, at, terms, now) > 0) return;
  if (algorithm.list) (cells[at] as number[]).length = 0;
  else cells.fill(0 as never, at, at + algorithm.width);
}

/** The part of the limit in use, from 0 to 1. At 0 the bucket is full and may be forgotten. */
export function usage(algorithm: Algorithm, cells: Cells, at: number, terms: CompiledPolicy, now: number): number {
  return Math.min(1, algorithm.used(cells, at, terms, now) / terms.capacityUnits);
}

function allow(
  algorithm: Algorithm,
  cells: Cells,
  at: number,
  terms: CompiledPolicy,
  now: number,
  used: number,
  before: number,
): Decision {
  const { name: policy, limit, capacityUnits, unitsPerToken, unitsPerMs } = terms;
  const remaining = used < capacityUnits ? Math.floor((capacityUnits - used) / unitsPerToken) : 0;
  const resetAfterMs = used > 0 ? algorithm.reset(cells, at, terms, now, used) : 0;
  const nextAfterMs = used > 0 ? algorithm.wait(cells, at, terms, now, excess(used, terms, remaining + 1)) : 0;
  if (!algorithm.queues) return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs };
  return {
    allowed: true,
    policy,
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
  terms: CompiledPolicy,
  now: number,
  used: number,
  cost: number,
  over: number,
): Decision {
  const { policy, limit, remaining, resetAfterMs, nextAfterMs } = allow(algorithm, cells, at, terms, now, used, used);
  const retryAfterMs = cost > limit ? null : algorithm.wait(cells, at, terms, now, over);
  return { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
}

/** By how much `cost` does not fit; it fits at 0 or less. In this order every step is exact. */
function excess(used: number, { capacityUnits, unitsPerToken }: CompiledPolicy, cost: number): number {
  // Cost 0 always fits, also when a lowered limit or a clock that stepped back has put more in use than fits.
  return cost === 0 ? 0 : used - (capacityUnits - cost * unitsPerToken);
}
