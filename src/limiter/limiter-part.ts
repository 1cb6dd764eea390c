/** What stands behind a limiter: its policies and their stores. How `combine` looks inside one. */

import type { CompiledPolicy } from "../core/compile.ts";
import { optionError } from "../core/errors.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import type { FailurePolicy } from "../resilience/failure-policy.ts";

/** One policy on one store, and what its limiter does when that fails. */
export interface LimiterPart {
  readonly store: Store;
  readonly policy: CompiledPolicy;
  readonly failurePolicy: FailurePolicy;
}

/** A limiter that tells what stands behind it. */
export interface ComposableLimiter extends RateLimiter {
  /** Its policies and their stores, in order. Not a part of the public contract. */
  parts(): readonly LimiterPart[];
}

/** What stands behind a limiter; of a combination, all of it in order. */
export function partsOf(limiter: RateLimiter): readonly LimiterPart[] {
  if (typeof (limiter as ComposableLimiter | undefined)?.parts === "function")
    return (limiter as ComposableLimiter).parts();
  throw optionError(
    "invalid-limiter",
    "limiter",
    "a limiter made by createLimiter, combine or a function that ends in RateLimiter, other than hybridRateLimiter",
    limiter,
  );
}
