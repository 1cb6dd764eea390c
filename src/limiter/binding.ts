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
const BINDINGS: unique symbol = Symbol.for("sluice.bindings") as never;

/** A limiter that tells what stands behind it; throws once it is disposed. */
export interface BoundLimiter extends RateLimiter {
  readonly [BINDINGS]: () => readonly Binding[];
}

/** Adds what stands behind a limiter, out of sight. */
export function bind<L extends RateLimiter>(limiter: L, bindings: () => readonly Binding[]): L {
  return Object.defineProperty(limiter, BINDINGS, { value: bindings });
}

/** What stands behind a limiter; of a combination, all of it in order. */
export function bindingsOf(limiter: RateLimiter): readonly Binding[] {
  const bindings = (limiter as Partial<BoundLimiter> | null | undefined)?.[BINDINGS];
  if (bindings) return bindings();
  throw new SluiceError({
    code: "invalid-limiter",
    option: "limiter",
    received: limiter,
    expected: "a limiter made by createLimiter, combine or a function that ends in RateLimiter",
  });
}
