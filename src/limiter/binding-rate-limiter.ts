/** The rate-limit binding of Workers as a limiter: yes or no, and nothing else is known. */
import { checkOptions } from "../core/options.ts";
import type { Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { bindingStore } from "../stores/cloudflare/binding-store.ts";
import type { RateLimitBinding } from "../stores/cloudflare/platform.ts";
import { createLimiter } from "./create-limiter.ts";
import { FAILURE_OPTIONS, type FailureOptions } from "./on-store-error.ts";

/**
 * A limiter that asks a binding. The policy has to say what the binding is set to: a fixed window of 10 or 60
 * seconds. Decisions are approximate and their figures unknown; `peek`, `refund`, `reset` and `inspect` are refused.
 */
export function bindingRateLimiter(
  binding: RateLimitBinding,
  policy: Policy,
  options: FailureOptions = {},
): RateLimiter {
  checkOptions("bindingRateLimiter", options, FAILURE_OPTIONS);
  // Asking costs next to nothing, and only the binding knows when its period ends.
  return createLimiter({ localDenialMs: 0, ...options, policy, store: bindingStore(binding) });
}
