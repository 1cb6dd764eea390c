/** `bindingRateLimiter`: a limiter on the Workers rate limit binding. */
import type { Policy } from "../../../core/policy.ts";
import type { RateLimiter } from "../../../core/rate-limiter.ts";
import type { PolicyText } from "../../../policy/text-type.ts";
import type { FailureOptions } from "../../../remote/failure-options.ts";
import { limiterForClient, type StoreKind } from "../../../remote/limiter-for-client.ts";
import type { RateLimitBinding } from "../platform.ts";
import { bindingStore } from "./binding-store.ts";

/**
 * Creates a limiter on a Workers rate limit binding. The policy must match the binding's configuration: a fixed window
 * of 10 or 60 seconds. Its decisions are `approximate` and `unknown`: only `allowed` is certain. `peek`, `refund`,
 * `reset` and `inspect` reject with `unsupported`.
 */
export function bindingRateLimiter(
  binding: RateLimitBinding,
  policy: Policy | PolicyText,
  options: FailureOptions = {},
): RateLimiter {
  // No cached denials: a call to the binding is nearly free, and the end of its period is unknown.
  return limiterForClient(bindings, binding, policy, { ...options, localDenialMs: options.localDenialMs ?? 0 });
}

const bindings: StoreKind<RateLimitBinding, object> = {
  where: "bindingRateLimiter",
  options: [],
  create: bindingStore,
};
