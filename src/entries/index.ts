/** `sluice`: policies, limiters, the memory store, combinations and the error class. */

export { parsePolicy } from "../algorithms/policy-text.ts";
export type { Charge, Group, Mode } from "../core/charge.ts";
export type { Clock } from "../core/clock.ts";
export type { CompiledPolicy, PenaltyNumbers } from "../core/compiled-policy.ts";
export type { Allowed, Decision, DecisionFields, DecisionSource, Denied, Inspection } from "../core/decision.ts";
export { type ErrorCode, SluiceError } from "../core/errors.ts";
export type { Hold, HoldDecision, HoldMethods, HoldOptions, RenewOptions, Settlement } from "../core/hold.ts";
export type {
  AlgorithmName,
  ConcurrencyPolicy,
  FixedWindowPolicy,
  LeakyBucketPolicy,
  PenaltyPolicy,
  Policy,
  ResolvedPolicy,
  SlidingLogPolicy,
  SlidingWindowPolicy,
  TokenBucketPolicy,
} from "../core/policy.ts";
export type { PolicyText } from "../core/policy-text.ts";
export type { Duration, RateText, TimeUnit } from "../core/rate.ts";
export type { PenaltyLimiter, RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
export {
  type BurstOptions,
  concurrency,
  fixedWindow,
  type LabelOptions,
  type LeaseOptions,
  leakyBucket,
  penalty,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "../core/shorthand.ts";
export type { CallState, Consistency, PolicyBuckets, Store, SyncStore } from "../core/store.ts";
export { combine, consumeAll, type LimiterCharge } from "../limiter/combine.ts";
export { createLimiter, type LimiterOptions } from "../limiter/create-limiter.ts";
export { type HoldCharge, holdAll } from "../limiter/hold-all.ts";
export type { LimiterEvent, OnEvent } from "../resilience/events.ts";
export type { FailureOptions, OnStoreError } from "../resilience/failure-policy.ts";
export { type MemoryStore, type MemoryStoreOptions, memoryStore } from "../stores/memory/memory-store.ts";
export { type MemoryRateLimiter, memoryRateLimiter } from "../stores/memory/rate-limiter.ts";
