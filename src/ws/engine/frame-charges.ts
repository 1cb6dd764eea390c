/** Computes the charges of a frame from the configured limits. */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import { checkCost, checkKey } from "../../core/charge.ts";
import type { Decision } from "../../core/decision.ts";
import { holdCharges } from "../../holds/hold-all.ts";
import type { Hold } from "../../holds/hold-options.ts";
import { applyCharges, type CheckedCharge, hasConcurrency } from "../../joint/charges.ts";
import { requireSync } from "./callbacks.ts";
import { isLimiter, notALimiter } from "./guard-config.ts";
import type { Ingress } from "./ingress.ts";
import type { KeyCache } from "./keys.ts";
import type { FrameLimit } from "./options.ts";

/** Applies the charges of a frame. A concurrency limit is held, and released when the handler has settled. */
export function chargeFrame(charges: readonly CheckedCharge[], mayHold: boolean): MaybePromise<Decision> {
  if (!mayHold || !charges.some(({ limiter }) => hasConcurrency(limiter))) return applyCharges(charges);
  return holdCharges(
    charges.map((charge) => ({ ...charge, isHeld: hasConcurrency(charge.limiter) })),
    {},
  );
}

/** The hold of a decision on a frame, if a concurrency limit is held. */
export function holdOf(decision: Decision): Hold | undefined {
  return (decision as { hold?: Hold }).hold;
}

/** Returns the charges of a frame, without limits that do not apply to it and without costs of 0. */
export function chargesOf<Data>(
  limits: readonly Required<FrameLimit<Data>>[],
  ingress: Ingress<Data>,
  keys: KeyCache,
): readonly CheckedCharge[] {
  const charges: CheckedCharge[] = [];
  for (const { limiter: limiterOption, key: keyOf, cost: costOf } of limits) {
    const isFunction = typeof limiterOption === "function";
    const limiter = isFunction ? requireSync("limiter", limiterOption(ingress)) : limiterOption;
    if (limiter === undefined) continue;
    if (!isLimiter(limiter)) {
      throw notALimiter("limiter", "a function that returns a limiter or undefined", limiter);
    }
    const cost = requireSync("cost", costOf(ingress));
    checkCost(cost);
    if (cost === 0) continue;
    const key = requireSync("key", keys.keyOf(keyOf, ingress));
    checkKey(key);
    charges.push({ limiter, key, cost });
  }
  return charges;
}
