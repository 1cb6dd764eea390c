/** The rate-limit binding of Workers as a limiter: yes or no, and nothing else is known. */
import type { Policy } from "../../../core/policy.ts";
import type { PolicyText } from "../../../core/policy-text.ts";
import type { RateLimiter } from "../../../core/rate-limiter.ts";
import { limiterForClient, type StoreKind } from "../../../limiter/limiter-for-client.ts";
import type { FailureOptions } from "../../../resilience/failure-policy.ts";
import type { RateLimitBinding } from "../platform.ts";
import { bindingStore } from "./binding-store.ts";

/**
 * A limiter that asks a binding. The policy has to say what the binding is set to: a fixed window of 10 or 60
 * seconds. Decisions are approximate and their figures unknown; `peek`, `refund`, `reset` and `inspect` are refused.
 */
export function bindingRateLimiter(
  binding: RateLimitBinding,
  policy: Policy | PolicyText,
  options: FailureOptions = {},
): RateLimiter {
  // Asking costs next to nothing, and only the binding knows when its period ends.
  return limiterForClient(bindings, binding, policy, { ...options, localDenialMs: options.localDenialMs ?? 0 });
}

const bindings: StoreKind<RateLimitBinding, object> = { where: "bindingRateLimiter", options: [], make: bindingStore };
