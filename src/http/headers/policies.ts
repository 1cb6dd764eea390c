/** The resolved policies that header fields and problem documents describe. */
import { optionError } from "../../core/errors.ts";
import type { ResolvedPolicy } from "../../core/policy.ts";

/** One policy, or every policy of a combination: `limiter.getPolicies?.() ?? limiter.getPolicy()`. */
export type Policies = ResolvedPolicy | readonly ResolvedPolicy[];

/** The policies as a list. */
export function policyList(policies: Policies): readonly ResolvedPolicy[] {
  return Array.isArray(policies) ? policies : [policies as ResolvedPolicy];
}

/** Whether policies have the shape of `ResolvedPolicy`. Those of a third-party limiter may not. */
export function areResolved(policies: Policies): boolean {
  return Array.isArray(policies) ? policies.every(isResolved) : isResolved(policies as ResolvedPolicy);
}

function isResolved(policy: Partial<ResolvedPolicy> | null): boolean {
  return typeof policy?.name === "string" && typeof policy.limit === "number" && typeof policy.windowMs === "number";
}

/** Throws for an unresolved policy, such as `tokenBucket("5/s")`. `undefined` is accepted: windows are left out then. */
export function checkPolicies(policies: Policies | undefined): void {
  if (policies === undefined || areResolved(policies)) return;
  const expected = "the resolved policies of a limiter: limiter.getPolicies?.() ?? limiter.getPolicy()";
  throw optionError("invalid-option", "policies", expected, policies);
}
