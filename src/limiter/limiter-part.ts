/** The parts of a limiter: its policies and their stores. */
import type { Mode } from "../core/charge.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { optionError } from "../core/errors.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { FailurePolicy, PartCharge } from "../resilience/failure-policy.ts";
import type { StorePort } from "./sync-port.ts";

/** One policy on one store, and what its limiter does when that fails. */
export interface LimiterPart {
  readonly port: StorePort;
  readonly policy: CompiledPolicy;
  readonly failurePolicy: FailurePolicy;
}

/** One charge to one part of a limiter. */
export interface JointCharge extends PartCharge {
  readonly port: StorePort;
}

/** A limiter whose parts can be charged together with those of others. */
export interface ComposableLimiter extends RateLimiter {
  /** Its parts, in order. Not a part of the public contract. */
  parts(): readonly LimiterPart[];
}

/** The parts of a limiter; of a combination, all of them in order. */
export function partsOf(limiter: RateLimiter): readonly LimiterPart[] {
  if (typeof (limiter as ComposableLimiter | undefined)?.parts === "function") {
    return (limiter as ComposableLimiter).parts();
  }
  const expected =
    "a limiter made by createLimiter, combine or a function whose name ends in RateLimiter, other than hybridRateLimiter";
  throw optionError("invalid-limiter", "limiter", expected, limiter);
}

/** A charge to one part. */
export function chargeTo(
  { port, policy, failurePolicy }: LimiterPart,
  key: string,
  cost: number,
  mode: Mode,
): JointCharge {
  return { port, policy, failurePolicy, key, cost, mode };
}

/** A charge to one part that holds an amount. `isNew`: no hold with this id exists. */
export function holdTo(
  { port, policy, failurePolicy }: LimiterPart,
  key: string,
  cost: number,
  hold: { readonly id: string; readonly forMs: number },
  isNewHold: boolean,
): JointCharge {
  return { port, policy, failurePolicy, key, cost, mode: "hold", hold, isNewHold };
}
