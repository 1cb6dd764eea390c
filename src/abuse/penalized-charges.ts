/** Adds penalties to the charges of a middleware without rules. Every denial is a strike. */
import { MAX_CHARGES } from "../core/charge.ts";
import { optionError, SluiceError } from "../core/errors.ts";
import { andThen, type MaybePromise } from "../core/maybe-promise.ts";
import type { AddedCharge, ScreenedMiddleware } from "../http/request-abuse.ts";
import type { RequestCharges, RequestPenalty } from "../http/request-charges.ts";
import type { RequestValues } from "../http/request-values.ts";
import type { ComposableLimiter } from "../limiter/limiter-part.ts";

/** Throws if the limiters of a middleware can't be charged together with penalties. */
export function checkPenalizable(limiters: readonly unknown[], penalties: readonly RequestPenalty[]): void {
  let count = penalties.length;
  for (const limiter of limiters) {
    // A function is checked with each limiter that it returns.
    if (typeof limiter === "function") count++;
    else count += partCount(limiter);
  }
  if (count <= MAX_CHARGES) return;
  throw optionError("too-many-charges", "rateLimit", `at most ${MAX_CHARGES} policies, penalties included`, count);
}

/** The number of policies of a limiter. Only limiters of sluice can be charged together with a penalty. */
function partCount(limiter: unknown): number {
  const { parts } = limiter as Partial<ComposableLimiter>;
  if (typeof parts === "function") return parts.call(limiter).length;
  const message =
    "abuse with penalties or traps needs limiters of createLimiter, combine or a function that ends in RateLimiter, because other limiters (and hybridRateLimiter) can't be charged together with a penalty.";
  throw new SluiceError("invalid-limiter", message, { option: "limiter", expected: "a limiter of sluice" });
}

/** The charges of a request and its penalties, all or nothing. */
export function withPenalties<Args extends readonly unknown[]>(
  { join }: ScreenedMiddleware<Args>,
  penalties: readonly RequestPenalty[],
  charges: RequestCharges,
  values: RequestValues,
): MaybePromise<RequestCharges> {
  if (penalties.length === 0) return charges;
  const { limiter } = charges as { readonly limiter?: unknown };
  if (limiter !== undefined) partCount(limiter);
  const added: AddedCharge[] = [];
  const addFrom = (index: number): MaybePromise<RequestCharges> => {
    const penalty = penalties[index];
    if (!penalty) return added.length === 0 ? charges : join(charges, added);
    const key = values.later(() => values.penaltyKey(penalty.identities));
    return andThen(key, (key) => {
      if (key !== undefined) {
        added.push({ limiter: penalty.limiter, key, cost: 1, isHeld: false, isPeeked: !penalty.isStruck });
      }
      return addFrom(index + 1);
    });
  };
  return addFrom(0);
}
