/** What a frame costs, and who says whether that may be spent. */
import { checkCost, checkKey } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { SluiceError } from "../core/errors.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { consumeChecked } from "./combine.ts";
import type { Ingress } from "../ws/engine/ingress.ts";
import type { KeyMemory } from "../ws/engine/keys.ts";
import { type FrameLimit, isLimiter } from "../ws/engine/options.ts";
import { toldAtOnce } from "../ws/engine/callbacks.ts";

/** One key and cost for one limiter. */
export interface FrameCharge {
  readonly limiter: RateLimiter;
  readonly key: string;
  readonly cost: number;
}

/** What a frame is charged; limits that do not apply, and what is free, are not among it. */
export function chargesOf<Data>(
  limits: readonly Required<FrameLimit<Data>>[],
  ingress: Ingress<Data>,
  keys: KeyMemory,
): readonly FrameCharge[] {
  const charges: FrameCharge[] = [];
  for (const { limiter: who, key: keyOf, cost: costOf } of limits) {
    const limiter = typeof who === "function" ? toldAtOnce("limiter", who(ingress)) : who;
    if (limiter === undefined) continue;
    if (!isLimiter(limiter)) {
      throw new SluiceError(
        "invalid-limiter",
        "limiter",
        "a limiter, or nothing where the limit does not apply",
        limiter,
      );
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

/** Takes all of it or none, without a promise where the store needs none. */
export function consumeCharges(charges: readonly FrameCharge[]): Decision | Promise<Decision> {
  const { limiter, key, cost } = charges[0] as FrameCharge;
  if (charges.length > 1) return consumeChecked(charges);
  return limiter.consumeSync ? limiter.consumeSync(key, cost) : limiter.consume(key, cost);
}

/** The charge that a denial is about: of several, that of the part which binds. */
export function bindingCharge(charges: readonly FrameCharge[], { parts, retryAfterMs }: Decision): FrameCharge {
  let first = 0;
  for (const charge of charges) {
    const next = first + (charge.limiter.getPolicies?.().length ?? 1);
    const own = parts?.slice(first, next);
    if (!own || own.some((part) => !part.allowed && part.retryAfterMs === retryAfterMs)) return charge;
    first = next;
  }
  return charges[0] as FrameCharge;
}
