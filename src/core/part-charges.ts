/** How each kind of policy takes part in a call: a rate takes, and others say what they do. */
import type { CompiledPolicy } from "./compiled-policy.ts";
import { chargeTo, type JointCharge, type LimiterPart } from "./limiter-part.ts";

/** Whether a policy has a rate. Others limit what is held, or count strikes. */
export function hasRate({ kind }: CompiledPolicy): boolean {
  return kind === "rate";
}

/** The charge of `consume`. */
export function takeCharge(part: LimiterPart, key: string, cost: number): JointCharge {
  const { algorithm } = part.policy;
  if (!algorithm.consume) return chargeTo(part, key, cost, "take");
  const own = algorithm.consume(part.policy, cost);
  return chargeTo(part, key, own.cost, own.mode);
}

/** The charge of `peek`. */
export function peekCharge(part: LimiterPart, key: string, cost: number): JointCharge {
  return chargeTo(part, key, hasRate(part.policy) ? cost : Math.min(cost, 1), "peek");
}
