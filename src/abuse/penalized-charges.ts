/** Adds penalties to the charges of a middleware without rules. Every denial is a strike. */

import { optionError, SluiceError } from "../base/errors.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import { MAX_CHARGES } from "../core/charge.ts";
import type { ComposableLimiter } from "../core/part-charges.ts";
import type { AddedCharge, DeniedPreflight, ScreenedMiddleware } from "../http/request-abuse.ts";
import type { RequestCharges, RequestPenalty } from "../http/request-charges.ts";
import type { RequestContext } from "../http/request-context.ts";
import { RequestValues } from "../http/request-values.ts";

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
        const isPeeked = !(penalty.isStruck && values.mayStrike(penalty.identities));
        added.push({ limiter: penalty.limiter, key, cost: 1, isHeld: false, isPeeked });
      }
      return addFrom(index + 1);
    });
  };
  return addFrom(0);
}

/** Identities of callers without credentials, and the one that their keys are made of. */
const BY_ADDRESS: Readonly<Record<string, "ip" | "network">> = { ip: "ip", client: "ip", network: "network" };

/** The block of a request that is identified by its IP address alone; `undefined` without one. Nothing is charged. */
export function blockOf(
  penalties: readonly RequestPenalty[],
  context: RequestContext,
  from = 0,
): MaybePromise<DeniedPreflight | undefined> {
  const penalty = penalties[from];
  if (!penalty || context.hasOwnAddress?.() === false) return undefined;
  const [only = ""] = penalty.identities;
  const identity = penalty.identities.length === 1 ? BY_ADDRESS[only] : undefined;
  const key = identity && (new RequestValues(context).penaltyKey([identity]) as string | undefined);
  if (key === undefined) return blockOf(penalties, context, from + 1);
  const { limiter } = penalty;
  return limiter.peek(key).then((decision) => {
    if (decision.allowed) return blockOf(penalties, context, from + 1);
    return { key, decision, policy: limiter.getPolicy() };
  });
}
