/** Joins a policy and a store into a limiter. */

import { type CompiledPolicy, compilePolicy } from "../core/compile.ts";
import { optionError } from "../core/errors.ts";
import { checkOptions } from "../core/options.ts";
import type { Policy } from "../core/policy.ts";
import type { PolicyText } from "../core/policy-text.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import { isSync, type Store, type SyncStore } from "../core/store.ts";
import {
  defaultFailurePolicy,
  FAILURE_OPTIONS,
  type FailureOptions,
  type FailurePolicy,
  parseFailureOptions,
} from "../resilience/failure-policy.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { claimName, releaseName } from "./names.ts";
import { RemoteLimiter } from "./remote-limiter.ts";
import { SyncLimiter } from "./sync-limiter.ts";

/** What a limiter is made of. */
export interface LimiterOptions<S extends Store = Store> extends FailureOptions {
  /** What may be spent, and how fast: a policy, or text such as `"100/m"`. */
  policy: Policy | PolicyText;
  /** Where buckets live. Default: a memory store of its own. */
  store?: S;
}

/** A limiter for one policy. Without a store it keeps its buckets in this process's memory. */
export function createLimiter(options: LimiterOptions<SyncStore>): SyncRateLimiter;
export function createLimiter(options: LimiterOptions): RateLimiter;
export function createLimiter(options: LimiterOptions): RateLimiter {
  checkOptions("createLimiter", options, ["policy", "store", ...FAILURE_OPTIONS]);
  const { store } = options;
  if (store !== undefined && typeof (store as Store | null)?.apply !== "function") {
    const expected = "a store, such as memoryStore()";
    throw optionError("invalid-option", "store", expected, store);
  }
  const policy = compilePolicy(options.policy);
  const failurePolicy = parseFailureOptions(options, policy, store);
  store?.check?.(policy, false);
  if (store === undefined) return limiterOwning(memoryStore(), policy, failurePolicy);
  claimName(store, policy);
  const release = async () => releaseName(store, policy);
  if (isSync(store)) return new SyncLimiter(store, policy, failurePolicy, release);
  return new RemoteLimiter(store, policy, failurePolicy, release);
}

/** A limiter that disposes of its store with itself. */
export function limiterOwning(
  store: SyncStore,
  policy: CompiledPolicy,
  failurePolicy: FailurePolicy = defaultFailurePolicy(policy),
): SyncRateLimiter {
  return new SyncLimiter(store, policy, failurePolicy, () => store.dispose());
}
