/** The limiter that a middleware asks: made from the policies it was given, or given itself. */
import type { Decision } from "../core/decision.ts";
import { SluiceError } from "../core/errors.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import { memoryCombination } from "../limiter/memory-combination.ts";
import { memoryRateLimiter } from "../limiter/memory-rate-limiter.ts";
import type { LimiterLike, RateLimitOptions } from "./options.ts";

/** The one limiter, or the function that chooses it. */
export function limiterFrom<Call extends readonly unknown[], L>(
  options: RateLimitOptions<Call, L>,
): NonNullable<RateLimitOptions<Call, L>["limiter"]> {
  const { policy, policies, limiter } = options;
  if ([policy, policies, limiter].filter((given) => given !== undefined).length !== 1) {
    const expected = 'exactly one of policy ("100/m"), policies (["10/s", "1000/h"]) and limiter';
    throw new SluiceError("invalid-option", "rateLimit", expected);
  }
  if (policy !== undefined) return memoryRateLimiter(policy);
  if (limiter !== undefined) return typeof limiter === "function" ? limiter : checkLimiter(limiter);
  if (!Array.isArray(policies) || policies.length === 0) {
    throw new SluiceError("invalid-option", "policies", 'a list of policies, such as ["10/s", "1000/h"]', policies);
  }
  return memoryCombination(policies);
}

/** A limiter, or a clear error. */
export function checkLimiter(limiter: LimiterLike): LimiterLike {
  if (typeof limiter === "object" && limiter !== null && typeof limiter.consume === "function") return limiter;
  throw new SluiceError("invalid-limiter", "limiter", "an object with consume(key, cost)", limiter);
}

/** What a limiter said, if it is a decision. Of other libraries some throw a denial, or answer a boolean. */
export function checkDecision(decision: Decision): Decision {
  if (typeof decision === "object" && decision !== null && typeof decision.allowed === "boolean") return decision;
  throw new SluiceError("invalid-limiter", "limiter", "a consume that gives a decision: { allowed, ... }", decision);
}

/** The policies that a limiter tells of. */
export function policiesOf(limiter: LimiterLike): ResolvedPolicy | readonly ResolvedPolicy[] | undefined {
  return limiter.getPolicies?.() ?? limiter.getPolicy?.();
}
