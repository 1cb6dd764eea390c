/** What stands behind a limiter: its policies and their stores. How `combine` looks inside one. */
import { SluiceError } from "../core/errors.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import type { Terms } from "../core/terms.ts";

/** One policy on one store. */
export interface Binding {
  readonly store: Store;
  readonly terms: Terms;
}

/** The same symbol in every copy of the package that a bundler may make. */
export const BINDINGS: unique symbol = Symbol.for("sluice.bindings") as never;

/** A limiter that tells what stands behind it. */
export interface BoundLimiter extends RateLimiter {
  [BINDINGS](): readonly Binding[];
}

/** What stands behind a limiter; of a combination, all of it in order. */
export function bindingsOf(limiter: RateLimiter): readonly Binding[] {
  if (typeof (limiter as BoundLimiter | undefined)?.[BINDINGS] === "function") return (limiter as BoundLimiter)[BINDINGS]();
  throw new SluiceError({
    code: "invalid-limiter",
    option: "limiter",
    received: limiter,
    expected: "a limiter made by createLimiter, combine or a function that ends in RateLimiter",
  });
}
