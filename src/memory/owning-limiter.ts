/** Limiters that own their store. Without what other stores need, so that a limiter in memory stays small. */
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { SyncRateLimiter } from "../core/rate-limiter.ts";
import type { SyncStore } from "../core/store.ts";
import { defaultFailurePolicy, type FailurePolicy } from "../remote/failure-policy.ts";
import { SyncLimiter } from "../core/policy-limiter.ts";
import { SyncPort } from "../core/sync-port.ts";

/** Creates a limiter that disposes of its store with itself. */
export function limiterOwning(
  store: SyncStore,
  policy: CompiledPolicy,
  failurePolicy: FailurePolicy = defaultFailurePolicy(policy),
): SyncRateLimiter {
  return new SyncLimiter({ port: new SyncPort(store), policy, failurePolicy }, () => store.dispose());
}
