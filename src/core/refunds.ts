/** Turns charges and the decisions on them into refunds. */

import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Act, PartCharge, PartGroup } from "./apply.ts";
import type { Decision } from "./decision.ts";
import { hasGrant, refundOf } from "./grant.ts";
import { MODES } from "./modes.ts";
import { hasRate } from "./part-charges.ts";

/** The refunds of charges; with the decisions on them, no more than is still in use of each grant. */
export function refundsOf(charges: PartGroup, decisions?: readonly Decision[]): PartCharge[] {
  const refunds: PartCharge[] = [];
  charges.forEach((charge, i) => {
    const decision = decisions?.[i];
    if (charge.cost === 0 && !hasRate(charge.policy)) return;
    // A penalty that admits its group has taken nothing.
    if (decision && !MODES[charge.mode]?.apply && !hasGrant(decision)) return;
    const refund = refundOf(decision, charge.cost);
    if (refund) refunds.push({ ...charge, cost: refund.cost, mode: "refund", grantEndsAt: refund.endsAt });
  });
  return refunds;
}

/** Applies refunds, all of one shard. Groups of one: refunding one grant of a long sliding log is enough for one step. */
export function applyRefunds(refunds: PartGroup, act: Act): MaybePromise<unknown> {
  const [first] = refunds;
  if (!first) return undefined;
  return first.engine.apply(
    refunds.map((refund) => [refund]),
    act,
  );
}
