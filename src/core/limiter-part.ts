/** The parts of a limiter: its policies and their stores. */
import type { CompiledPolicy, Mode } from "./compiled-policy.ts";
import type { Decision } from "./decision.ts";
import { optionError } from "./errors.ts";
import type { MaybePromise } from "./maybe-promise.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import type { FailurePolicy, PartCharge } from "../remote/failure-policy.ts";
import type { StoreFailure } from "../remote/store-health.ts";
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
  /** Of a charge that holds: what else its calls have to do. */
  readonly acts?: HoldActs | undefined;
}

/** What the calls of a charge that holds have to do. The charge brings it, so that limiters without holds don't contain it. */
export interface HoldActs {
  /** The store has applied the charge. */
  applied(charge: JointCharge): void;
  /** The store has failed. It may have applied the charge, which was decided without it. */
  failed(charge: JointCharge, failure: StoreFailure): void;
  /** Cancels what was granted, because another charge of the group was denied. */
  undo(charge: JointCharge, decision: Decision | undefined): MaybePromise<unknown>;
}

/** A limiter whose parts can be charged together with those of others. */
export interface ComposableLimiter extends RateLimiter {
  /** Its parts, in order. Not a part of the public contract. */
  parts(): readonly LimiterPart[];
  /** Decides charges to its parts that can be denied. Not a part of the public contract. */
  apply(charges: readonly JointCharge[]): MaybePromise<Decision>;
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
