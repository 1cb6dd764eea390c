/** The leases of each limiter with a concurrency policy, so that `dispose` can release them. */
import { monotonicMs } from "../core/clock.ts";
import { shared } from "../core/shared-state.ts";
import type { FailurePolicy } from "../remote/failure-policy.ts";

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

/** By failure policy, of which every limiter has its own. */
const leases = /* @__PURE__ */ shared("leases", () => new WeakMap<object, LeaseSet>());

/** An observed limiter has a copy of the failure policy, and the same leases. */
const ownerOf = (failurePolicy: FailurePolicy): FailurePolicy => failurePolicy.copyOf ?? failurePolicy;

/** Records a lease of a limiter. */
export function addLease(failurePolicy: FailurePolicy, lease: Leased): void {
  const owner = ownerOf(failurePolicy);
  let known = leases.get(owner);
  if (!known) leases.set(owner, (known = { open: new Set(), pruneAt: FIRST_PRUNE }));
  // This process's work ends with the limiter. Amounts of a rate stay held until they end, because the work was probably done.
  owner.onDispose ??= () => releaseLeases(owner);
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
export function removeLease(failurePolicy: FailurePolicy, lease: Leased): void {
  leases.get(ownerOf(failurePolicy))?.open.delete(lease);
}

/** Whether a limiter has leases that were not settled. */
export function hasLeases(failurePolicy: FailurePolicy): boolean {
  return (leases.get(ownerOf(failurePolicy))?.open.size ?? 0) > 0;
}

/** Releases all leases of a limiter. Failures are retried in the background. */
export async function releaseLeases(failurePolicy: FailurePolicy): Promise<void> {
  const known = [...(leases.get(ownerOf(failurePolicy))?.open ?? [])];
  leases.delete(ownerOf(failurePolicy));
  await Promise.all(known.map((lease) => lease.releaseLeases().catch(() => {})));
}
