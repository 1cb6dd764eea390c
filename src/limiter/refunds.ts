/** Turns charges and the decisions on them into refunds. */
import type { Decision } from "../core/decision.ts";
import { refundOf } from "../core/grant.ts";
import type { PartCharge } from "../resilience/failure-policy.ts";
import { hasRate } from "./part-charges.ts";

/** The refunds of charges; with the decisions on them, no more than is still in use of each grant. */
export function refundsOf(charges: readonly PartCharge[], decisions?: readonly Decision[]): PartCharge[] {
  const refunds: PartCharge[] = [];
  charges.forEach((charge, i) => {
    if (charge.cost === 0 && !hasRate(charge.policy)) return;
    const refund = refundOf(decisions?.[i], charge.cost);
    if (refund) refunds.push({ ...charge, cost: refund.cost, mode: "refund", grantEndsAt: refund.endsAt });
  });
  return refunds;
}
