/** What stands behind a limiter: its policies and their stores. How `combine` looks inside one. */
import { SluiceError } from "../core/errors.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import type { Terms } from "../core/terms.ts";
import type { Care } from "./on-store-error.ts";

/** One policy on one store, and what its limiter does when that fails. */
export interface Binding {
  readonly store: Store;
  readonly terms: Terms;
  readonly care: Care;
}

/** A limiter that tells what stands behind it. */
export interface BoundLimiter extends RateLimiter {
  /** Its policies and their stores, in order. Not a part of the public contract. */
  bindings(): readonly Binding[];
}

/** What stands behind a limiter; of a combination, all of it in order. */
export function bindingsOf(limiter: RateLimiter): readonly Binding[] {
  if (typeof (limiter as BoundLimiter | undefined)?.bindings === "function")
    return (limiter as BoundLimiter).bindings();
  throw new SluiceError(
    "invalid-limiter",
    "limiter",
    "a limiter made by createLimiter, combine or a function that ends in RateLimiter, other than hybridRateLimiter",
    limiter,
  );
}
