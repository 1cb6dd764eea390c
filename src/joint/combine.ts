/** Several limits in one decision, all or nothing. */

import { optionError } from "../base/errors.ts";
import { Limiter, SyncLimiter } from "../core/limiter.ts";
import { partsOf } from "../core/part-charges.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import { checkTogether, jointly } from "./jointly.ts";

/** Combines limiters that are charged the same key and cost, all or nothing: a burst limit and a daily quota. */
export function combine(limiters: readonly SyncRateLimiter[]): SyncRateLimiter;
export function combine(limiters: readonly RateLimiter[]): RateLimiter;
export function combine(limiters: readonly RateLimiter[]): RateLimiter {
  if (!Array.isArray(limiters)) {
    throw optionError("invalid-option", "limiters", "a list of limiters", limiters);
  }
  const parts = limiters.flatMap(partsOf);
  checkTogether("limiters", parts);
  const isSync = parts.every(({ engine }) => engine.syncStore);
  return isSync ? new SyncLimiter(parts, jointly) : new Limiter(parts, jointly);
}
