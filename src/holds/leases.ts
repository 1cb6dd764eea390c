/** The leases of each limiter with a concurrency policy, so that `dispose` can release them. */

import { monotonicMs } from "../base/clock.ts";
import { shared } from "../base/shared-state.ts";
import type { LimiterContext } from "../core/apply.ts";

/** A hold whose lease can be released. */
export interface Leased {
  /** Frees what is held on concurrency limits. Amounts of rates stay held until they end. */
  releaseLeases(): Promise<void>;
  /** Whether all of it has ended at `now`, in monotonic ms. */
  hasEnded(now: number): boolean;
}

/** The leases of one limiter. */
interface LeaseSet {
  readonly open: Set<Leased>;
  /** The number of leases from which on those that have ended are removed. */
  pruneAt: number;
}

const FIRST_PRUNE = 1000;

/** By the context of their limiter. */
const leases = /* @__PURE__ */ shared("leases", () => new WeakMap<object, LeaseSet>());

/** Records a lease of a limiter. */
export function addLease(context: LimiterContext, lease: Leased): void {
  let known = leases.get(context);
  if (!known) leases.set(context, (known = { open: new Set(), pruneAt: FIRST_PRUNE }));
  // This process's work ends with the limiter. Amounts of a rate stay held until they end, because the work was probably done.
  context.onDispose ??= () => releaseLeases(context);
  known.open.add(lease);
  if (known.open.size >= known.pruneAt) prune(known);
}

/** Removes leases that have ended: they were abandoned, or settled by their id. */
function prune(known: LeaseSet): void {
  const now = monotonicMs();
  for (const lease of known.open) if (lease.hasEnded(now)) known.open.delete(lease);
  // Twice the rest, so that the cost per lease is constant.
  known.pruneAt = Math.max(FIRST_PRUNE, 2 * known.open.size);
}

/** Forgets a lease that was settled. */
export function removeLease(context: LimiterContext, lease: Leased): void {
  leases.get(context)?.open.delete(lease);
}

/** Whether a limiter has leases that were not settled. */
export function hasLeases(context: LimiterContext): boolean {
  return (leases.get(context)?.open.size ?? 0) > 0;
}

/** Releases all leases of a limiter. Failures are retried in the background. */
export async function releaseLeases(context: LimiterContext): Promise<void> {
  const known = [...(leases.get(context)?.open ?? [])];
  leases.delete(context);
  await Promise.all(known.map((lease) => lease.releaseLeases().catch(() => {})));
}
