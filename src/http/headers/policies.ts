/** The resolved policies that header fields and problem documents describe. */

import { optionError } from "../../base/errors.ts";
import type { Decision, Denied } from "../../core/decision.ts";
import type { ResolvedPolicy } from "../../core/policy.ts";

/** One policy, or every policy of a combination: `limiter.getPolicies?.() ?? limiter.getPolicy()`. */
export type Policies = ResolvedPolicy | readonly ResolvedPolicy[];

/** The policies as a list. */
export function policyList(policies: Policies): readonly ResolvedPolicy[] {
  return Array.isArray(policies) ? policies : [policies as ResolvedPolicy];
}

/** Whether a policy is a penalty. It is in no header field: a blocked key is reported by the problem type. */
export function isPenalty(policy: ResolvedPolicy | undefined): boolean {
  return policy?.algorithm === "penalty";
}

/** Whether a policy limits how much is held at once. It has no window. */
export function isConcurrency(policy: ResolvedPolicy | undefined): boolean {
  return policy?.algorithm === "concurrency";
}

/** The wait in ms that clients are asked for. Holds may be settled at any time, so it is the earliest one. */
export function waitBefore({ earliestRetryMs, retryAfterMs }: Denied): number | null {
  return earliestRetryMs ?? retryAfterMs;
}

/** The parts of a decision with their policies, without penalties. A part without a known policy has none. */
export function reportedParts(
  decision: Decision,
  policies: Policies | undefined,
): { readonly part: Decision; readonly policy: ResolvedPolicy | undefined; readonly index: number }[] {
  const list = policies ? policyList(policies) : [];
  const parts = decision.parts ?? [decision];
  return parts
    .map((part, index) => {
      const policy = decision.parts ? list[index] : list.find(({ name }) => name === part.policy);
      return { part, policy, index };
    })
    .filter(({ policy }) => !isPenalty(policy));
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
