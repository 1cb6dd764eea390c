/** `memoryRateLimiter`: one policy in memory. */

import type { Policy } from "../core/policy.ts";
import type { SyncRateLimiter } from "../core/rate-limiter.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import type { PolicyText } from "../policy/text-type.ts";
import { type MemoryStore, type MemoryStoreOptions, memoryStore } from "./memory-store.ts";
import { limiterOwning } from "./owning-limiter.ts";

/** A limiter with a memory store of its own. */
export interface MemoryRateLimiter extends SyncRateLimiter {
  /** Its store: `size`, `evictions`, `clear()`. */
  readonly store: MemoryStore;
}

/** Creates a limiter for one policy in this process's memory. */
export function memoryRateLimiter(policy: Policy | PolicyText, options: MemoryStoreOptions = {}): MemoryRateLimiter {
  return limiterOwning(memoryStore(options), compilePolicy(policy)) as MemoryRateLimiter;
}
