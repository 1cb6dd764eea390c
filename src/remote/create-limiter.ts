/** Creates a limiter from a policy and a store. */

import { optionError } from "../base/errors.ts";
import { checkOptions } from "../base/options.ts";
import type { Part } from "../core/apply.ts";
import { alone, Limiter, SyncLimiter } from "../core/limiter.ts";
import { observerPort } from "../core/observer.ts";
import type { Policy } from "../core/policy.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import type { Store, SyncStore } from "../core/store.ts";
import { memoryStore } from "../memory/memory-store.ts";
import { limiterOwning } from "../memory/owning-limiter.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import type { PolicyText } from "../policy/text-type.ts";
import { engineOf } from "./engine.ts";
import { FAILURE_OPTIONS, type FailureOptions, parseFailureOptions } from "./failure-options.ts";
import { claimName, releaseName } from "./names.ts";
import { watchStore } from "./store-reports.ts";

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
  const context = parseFailureOptions(options, policy, store);
  const observed = observerPort(options.observer)?.policy(policy, store ?? (own as SyncStore));
  if (own) return limiterOwning(own, policy, context, observed);
  return limiterOn({ engine: engineOf(store as Store), policy, context, observed });
}

function limiterOn(part: Part): RateLimiter {
  const { engine, policy } = part;
  const { store, syncStore } = engine;
  claimName(store, policy);
  const unwatch = syncStore ? undefined : watchStore(part);
  const release = async (): Promise<void> => {
    unwatch?.();
    releaseName(store, policy);
  };
  return syncStore ? new SyncLimiter([part], alone, release) : new Limiter([part], alone, release);
}
