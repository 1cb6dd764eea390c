/** A limiter for store tests: without a fallback, without cached denials, with a deadline that suits a busy machine. */
import type { Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import { createLimiter } from "../remote/create-limiter.ts";

export function bareLimiter(policy: Policy, store: Store): RateLimiter {
  return createLimiter({ policy, store, onStoreError: "throw", localDenialMs: 0, deadlineMs: 20_000 });
}
