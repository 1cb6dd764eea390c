/** The charges of a frame. */
import { checkCost, checkKey } from "../../core/charge.ts";
import { optionError } from "../../core/errors.ts";
import type { CheckedCharge } from "../../limiter/charges.ts";
import { toldAtOnce } from "./callbacks.ts";
import type { Ingress } from "./ingress.ts";
import type { KeyMemory } from "./keys.ts";
import { type FrameLimit, isLimiter } from "./options.ts";

/** What a frame is charged; limits that do not apply, and what is free, are not among it. */
export function chargesOf<Data>(
  limits: readonly Required<FrameLimit<Data>>[],
  ingress: Ingress<Data>,
  keys: KeyMemory,
): readonly CheckedCharge[] {
  const charges: CheckedCharge[] = [];
  for (const { limiter: who, key: keyOf, cost: costOf } of limits) {
    const limiter = typeof who === "function" ? toldAtOnce("limiter", who(ingress)) : who;
    if (limiter === undefined) continue;
    if (!isLimiter(limiter)) {
      throw optionError("invalid-limiter", "limiter", "a limiter, or nothing where the limit does not apply", limiter);
    }
    const cost = toldAtOnce("cost", costOf(ingress));
    checkCost(cost);
    if (cost === 0) continue;
    const key = toldAtOnce("key", keys.keyOf(keyOf, ingress));
    checkKey(key);
    charges.push({ limiter, key, cost });
  }
  return charges;
}
