/** Creates the limiter of a middleware from its options, and checks limiters and decisions that come from outside. */

import { optionError, SluiceError, show } from "../../base/errors.ts";
import { andThen } from "../../base/maybe-promise.ts";
import { MAX_CHARGES } from "../../core/charge.ts";
import type { Decision } from "../../core/decision.ts";
import { type ObserverPort, observerPort } from "../../core/observer.ts";
import type { Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { areResolved, type Policies } from "../../http/headers/policies.ts";
import { combine } from "../../joint/combine.ts";
import { memoryStore } from "../../memory/memory-store.ts";
import { limiterOwning } from "../../memory/owning-limiter.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";
import { policyFromText } from "../../policy/policy-text.ts";
import type { PolicyText } from "../../policy/text-type.ts";
import type { LimiterLike, RateLimitOptions } from "./options.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** The limiter of `policy`, `policies` or `limiter`, or the function that returns it. */
export function limiterFrom<Args extends HandlerArgs, Own>(
  options: RateLimitOptions<Args, Own>,
): NonNullable<RateLimitOptions<Args, Own>["limiter"]> {
  const { policy, policies, limiter } = options;
  const observer = observerPort(options.observer);
  if (limiter !== undefined) {
    if (typeof limiter !== "function") return observed(observer, checkLimiter(limiter));
    return observer ? (...args) => andThen(limiter(...args), (chosen) => observed(observer, chosen)) : limiter;
  }
  if (policy !== undefined) {
    return observed(observer, limiterOwning(memoryStore(), compilePolicy(policyFrom("policy", policy))));
  }
  if (!Array.isArray(policies) || policies.length === 0) {
    throw optionError("invalid-option", "policies", 'a list of policies, such as ["10/s", "1000/h"]', policies);
  }
  return observed(observer, combinePolicies(policies.map((one) => policyFrom("policies", one))));
}

/** The limiter, whose decisions are observed if there is an observer. */
export function observed<L extends LimiterLike>(observer: ObserverPort | undefined, limiter: L): L {
  return observer ? observer.wrap(limiter) : limiter;
}

/** All policies or none, with the same key and cost, in one memory store. */
function combinePolicies(policies: readonly Policy[]): RateLimiter {
  if (policies.length > MAX_CHARGES) {
    throw optionError("too-many-charges", "policies", `a list of at most ${MAX_CHARGES} policies`, policies.length);
  }
  const compiled = policies.map((policy) => compilePolicy(policy));
  const names = new Set<string>();
  for (const { qualifiedName, name } of compiled) {
    if (names.has(qualifiedName)) {
      const message = `policies contains two policies named ${show(name)}. Give each policy a name of its own.`;
      const details = { option: "policies", expected: "each policy once, by a name of its own", received: name };
      throw new SluiceError("policy-conflict", message, details);
    }
    names.add(qualifiedName);
  }
  const store = memoryStore();
  // Not createLimiter, which would add the code for remote stores to every bundle.
  return combine(compiled.map((policy) => limiterOwning(store, policy)));
}

/** Parses policy text; returns a policy object as it is. */
export function policyFrom(option: string, policy: Policy | PolicyText): Policy {
  if (typeof policy === "function") {
    const message = `${option} must be a policy, but received a function. To choose a limit for each request, pass a function as limiter.`;
    throw new SluiceError("invalid-option", message, { option, expected: "a policy", received: policy });
  }
  return typeof policy === "string" ? policyFromText(option, policy) : policy;
}

/** Returns the limiter, or throws if the value is not one. */
export function checkLimiter(limiter: LimiterLike): LimiterLike {
  if (typeof limiter === "object" && limiter !== null && typeof limiter.consume === "function") return limiter;
  throw notALimiter("limiter", limiter);
}

/** The error for a value that is not a limiter. */
export function notALimiter(option: string, received: unknown): SluiceError {
  const isStore = typeof (received as { apply?: unknown } | null | undefined)?.apply === "function";
  if (!isStore) return optionError("invalid-limiter", option, "an object with consume(key, cost)", received);
  const message = `${option} must be a limiter, but received a store. Pass createLimiter({ policy, store }).`;
  return new SluiceError("invalid-limiter", message, { option, expected: "a limiter", received });
}

/** Returns the decision, or throws: some third-party limiters return a boolean. */
export function checkDecision(decision: Decision): Decision {
  if (typeof decision === "object" && decision !== null && typeof decision.allowed === "boolean") return decision;
  const expected = "a decision, such as { allowed: true }";
  const message = `consume() of the limiter must return ${expected}, but returned ${show(decision)}.`;
  throw new SluiceError("invalid-limiter", message, { option: "limiter", expected, received: decision });
}

/** The error for a thrown value that is not an Error. */
export function errorFrom(thrown: unknown): SluiceError {
  if (typeof thrown === "object" && thrown !== null && "msBeforeNext" in thrown) {
    const message =
      "consume() of the limiter rejected with its denial, as rate-limiter-flexible does. Wrap it to resolve with { allowed: true } or { allowed: false, retryAfterMs: msBeforeNext }.";
    return new SluiceError("invalid-limiter", message, { option: "limiter", expected: "a decision", cause: thrown });
  }
  // The text of a string stays out of the message: frameworks may send messages to clients.
  const value = typeof thrown === "string" ? "a string" : show(thrown);
  const message = `key, cost, skip and limiter must throw Error objects, but one of them threw ${value}.`;
  const details = { option: "rateLimit", expected: "Error objects", received: thrown, cause: thrown };
  return new SluiceError("invalid-option", message, details);
}

/** The policies of a limiter; `undefined` if it does not report them, or not in the shape of `ResolvedPolicy`. */
export function policiesOf(limiter: LimiterLike): Policies | undefined {
  const policies = limiter.getPolicies?.() ?? limiter.getPolicy?.();
  return policies && areResolved(policies) ? policies : undefined;
}
