/** The order of the middleware of a route of the suite. Imports nothing from Node. */
import type { GuardedRoute } from "sluice/testing";

/** The middleware of a route, outermost first: `idempotent`, if there is one, and the limiters. */
export function inOrder<T>(
  { isIdempotencyLast }: Pick<GuardedRoute, "isIdempotencyLast">,
  idempotents: readonly T[],
  limits: readonly T[],
): T[] {
  return isIdempotencyLast ? [...limits, ...idempotents] : [...idempotents, ...limits];
}
