/** The leases of each limiter with a concurrency policy, so that `dispose` can release them. */
import { shared } from "../core/shared-state.ts";
import type { FailurePolicy } from "../resilience/failure-policy.ts";

/** A hold whose lease can be released. */
export interface Leased {
  /** Frees what is held on concurrency limits. Amounts of rates stay held until they end. */
  releaseLeases(): Promise<void>;
}

/** By failure policy, of which every limiter has its own. */
const leases = /* @__PURE__ */ shared("leases", () => new WeakMap<FailurePolicy, Set<Leased>>());

/** Records a lease of a limiter. */
export function addLease(failurePolicy: FailurePolicy, lease: Leased): void {
  const known = leases.get(failurePolicy);
  if (known) known.add(lease);
  else leases.set(failurePolicy, new Set([lease]));
}

/** Forgets a lease that was settled. */
export function removeLease(failurePolicy: FailurePolicy, lease: Leased): void {
  leases.get(failurePolicy)?.delete(lease);
}

/** Releases all leases of a limiter. Failures are retried in the background. */
export async function releaseLeases(failurePolicy: FailurePolicy): Promise<void> {
  const known = [...(leases.get(failurePolicy) ?? [])];
  leases.delete(failurePolicy);
  await Promise.all(known.map((lease) => lease.releaseLeases().catch(() => {})));
}
