/** Creates a limiter from a policy and a store. */

import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { optionError } from "../core/errors.ts";
import { observerPort } from "../core/observer.ts";
import { checkOptions } from "../core/options.ts";
import type { Policy } from "../core/policy.ts";
import type { PolicyText } from "../policy/text-type.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import type { Store, SyncStore } from "../core/store.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import {
  FAILURE_OPTIONS,
  type FailureOptions,
  type FailurePolicy,
  parseFailureOptions,
} from "./failure-policy.ts";
import { memoryStore } from "../memory/memory-store.ts";
import type { LimiterPart } from "../core/limiter-part.ts";
import { claimName, releaseName } from "./names.ts";
import { limiterOwning } from "../memory/owning-limiter.ts";
import { SyncLimiter } from "../core/policy-limiter.ts";
import { RemoteLimiter } from "./remote-limiter.ts";
import { portOf } from "./store-port.ts";

/** Options of `createLimiter`. */
export interface LimiterOptions<S extends Store = Store> extends FailureOptions {
  /** The limit: a policy, or text such as `"100/m"`. */
  policy: Policy | PolicyText;
  /** Where buckets are kept. Default: a memory store of its own. */
  store?: S;
}

/** Creates a limiter for one policy. Without a store it keeps its buckets in this process's memory. */
export function createLimiter(options: LimiterOptions<SyncStore>): SyncRateLimiter;
export function createLimiter(options: LimiterOptions): RateLimiter;
export function createLimiter(options: LimiterOptions): RateLimiter {
  checkOptions("createLimiter", options, ["policy", "store", ...FAILURE_OPTIONS]);
  const { store } = options;
  if (store !== undefined && typeof (store as Store | null)?.apply !== "function") {
    throw optionError("invalid-option", "store", "a store, such as memoryStore() or redisStore(client)", store);
  }
  const policy = compilePolicy(options.policy);
  store?.check?.(policy, false);
  const own = store ? undefined : memoryStore();
  const failurePolicy = parseFailureOptions(options, policy, store ?? own);
  const limiter = own ? limiterOwning(own, policy, failurePolicy) : limiterOn(store as Store, policy, failurePolicy);
  return observerPort(options.observer)?.wrap(limiter) ?? limiter;
}

function limiterOn(store: Store, policy: CompiledPolicy, failurePolicy: FailurePolicy): RateLimiter {
  claimName(store, policy);
  const part: LimiterPart = { port: portOf(store), policy, failurePolicy };
  const release = async () => releaseName(store, policy);
  return part.port.syncStore ? new SyncLimiter(part, release) : new RemoteLimiter(part, release);
}
