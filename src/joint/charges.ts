/** Several limits with keys of their own, one decision: what HTTP middleware and the WebSocket guard charge. */

import type { MaybePromise } from "../base/maybe-promise.ts";
import { type Act, type PartCharge, TAKE } from "../core/apply.ts";
import type { Decision } from "../core/decision.ts";
import { consumeAs, partsOf, takeCharge } from "../core/part-charges.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { type CheckedCharge, chargesOf, consumeChecked } from "./consume-all.ts";
import { refundJointly } from "./jointly.ts";

export type { CheckedCharge };

/** Whether a limiter has a concurrency limit, which can only be held. */
export function hasConcurrency(limiter: Pick<Partial<RateLimiter>, "getPolicy" | "getPolicies">): boolean {
  const policies: unknown = limiter.getPolicies?.() ?? [limiter.getPolicy?.()];
  return Array.isArray(policies) && policies.some((policy) => policy?.algorithm === "concurrency");
}

/** Takes all charges or none, without a promise if every store is synchronous. There is at least one. */
export function applyCharges(charges: readonly CheckedCharge[], act: Act = TAKE): MaybePromise<Decision> {
  if (charges.length > 1) return consumeChecked(charges, act);
  const { limiter, key, cost } = charges[0] as CheckedCharge;
  return consumeAs(limiter, key, cost, act);
}

/** Refunds all charges of an allowed decision. */
export async function refundCharges(charges: readonly CheckedCharge[], decision: Decision): Promise<void> {
  const { limiter, key, cost } = charges[0] as CheckedCharge;
  if (charges.length === 1) return limiter.refund(key, cost, decision);
  await refundJointly(chargesOf(charges), decision.parts);
}

/** Refunds the charges of an allowed decision that were taken, and not held. */
export async function refundTaken(
  charges: readonly (CheckedCharge & { readonly isHeld: boolean })[],
  { parts = [] }: Decision,
): Promise<void> {
  const taken: PartCharge[] = [];
  const decisions: Decision[] = [];
  let index = 0;
  for (const { limiter, key, cost, isHeld, isPeeked } of charges) {
    for (const part of partsOf(limiter)) {
      const decision = parts[index++] as Decision;
      if (isHeld || isPeeked) continue;
      taken.push(takeCharge(part, key, cost));
      decisions.push(decision);
    }
  }
  await refundJointly(taken, decisions);
}

/** The charge that a decision is about: of several, the one that the limiting part belongs to. */
export function limitingCharge(charges: readonly CheckedCharge[], decision: Decision): CheckedCharge {
  const { parts } = decision;
  let first = 0;
  for (const charge of charges) {
    const next = first + (charge.limiter.getPolicies?.().length ?? 1);
    if (!parts || parts.slice(first, next).some((part) => hasSameNumbers(part, decision))) return charge;
    first = next;
  }
  return charges[0] as CheckedCharge;
}

function hasSameNumbers(a: Decision, b: Decision): boolean {
  return (
    a.policy === b.policy &&
    a.allowed === b.allowed &&
    a.remaining === b.remaining &&
    a.retryAfterMs === b.retryAfterMs &&
    a.resetAfterMs === b.resetAfterMs
  );
}
