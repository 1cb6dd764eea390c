/** The limiter that a middleware asks: made from the policies it was given, or given itself. */

import { policyFromText } from "../../algorithms/policy-text.ts";
import type { Decision } from "../../core/decision.ts";
import { optionError, type SluiceError } from "../../core/errors.ts";
import type { Policy, ResolvedPolicy } from "../../core/policy.ts";
import type { PolicyText } from "../../core/policy-text.ts";
import { areResolved } from "../../http/headers/rate-limit-headers.ts";
import { memoryCombination } from "../../limiter/memory-combination.ts";
import { memoryRateLimiter } from "../../stores/memory/rate-limiter.ts";
import type { LimiterLike, RateLimitOptions } from "./options.ts";

/** The one limiter, or the function that chooses it. */
export function limiterFrom<Call extends readonly unknown[], L>(
  options: RateLimitOptions<Call, L>,
): NonNullable<RateLimitOptions<Call, L>["limiter"]> {
  const { policy, policies, limiter } = options;
  if ([policy, policies, limiter].filter((given) => given !== undefined).length !== 1) {
    const expected = 'exactly one of policy ("100/m"), policies (["10/s", "1000/h"]) and limiter';
    throw optionError("invalid-option", "rateLimit", expected);
  }
  if (policy !== undefined) return memoryRateLimiter(policyFrom("policy", policy));
  if (limiter !== undefined) return typeof limiter === "function" ? limiter : checkLimiter(limiter);
  if (!Array.isArray(policies) || policies.length === 0) {
    throw optionError("invalid-option", "policies", 'a list of policies, such as ["10/s", "1000/h"]', policies);
  }
  return memoryCombination(policies.map((one) => policyFrom("policies", one)));
}

/** A policy from its text, or as it is. */
export function policyFrom(option: string, policy: Policy | PolicyText): Policy {
  if (typeof policy === "function") {
    const expected = "a policy; to choose a limit for each request, pass a function as limiter that returns one";
    throw optionError("invalid-option", option, expected, policy);
  }
  return typeof policy === "string" ? policyFromText(option, policy) : policy;
}

/** A limiter, or a clear error. */
export function checkLimiter(limiter: LimiterLike): LimiterLike {
  if (typeof limiter === "object" && limiter !== null && typeof limiter.consume === "function") return limiter;
  const isStore = typeof (limiter as { apply?: unknown } | null | undefined)?.apply === "function";
  const expected = isStore
    ? "a limiter, and not a store: createLimiter({ policy, store })"
    : "an object with consume(key, cost)";
  throw optionError("invalid-limiter", "limiter", expected, limiter);
}

/** What a limiter said, if it is a decision. Of other libraries some throw a denial, or answer a boolean. */
export function checkDecision(decision: Decision): Decision {
  if (typeof decision === "object" && decision !== null && typeof decision.allowed === "boolean") return decision;
  throw optionError("invalid-limiter", "limiter", "a consume that gives a decision: { allowed, ... }", decision);
}

/** The error for something thrown that is no error. */
export function errorFrom(thrown: unknown): SluiceError {
  const isDenial = typeof thrown === "object" && thrown !== null && "msBeforeNext" in thrown;
  const error = isDenial
    ? optionError(
        "invalid-limiter",
        "limiter",
        "consume to resolve with a decision, but it rejected with its denial, as rate-limiter-flexible does; wrap it to resolve with { allowed: true } or { allowed: false, retryAfterMs: msBeforeNext }",
      )
    : optionError("invalid-option", "rateLimit", "key, cost, skip and limiter to throw Error objects", thrown);
  return Object.assign(error, { cause: thrown });
}

/** The policies of a limiter; `undefined` if they are not known, or not in the shape that headers are made from. */
export function policiesOf(limiter: LimiterLike): ResolvedPolicy | readonly ResolvedPolicy[] | undefined {
  const policies = limiter.getPolicies?.() ?? limiter.getPolicy?.();
  return policies && areResolved(policies) ? policies : undefined;
}
