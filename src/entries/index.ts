/** `sluice`: policies, limiters, the memory store, combinations and the error class. */

export type { Clock } from "../base/clock.ts";
export { type ErrorCode, SluiceError } from "../base/errors.ts";
export type { Duration, RateText, TimeUnit } from "../base/rate.ts";
export type { OnStoreError } from "../core/apply.ts";
export type { Charge, Group, HoldEngine, HoldTerms } from "../core/charge.ts";
export type { Algorithm, CompiledPolicy, Mode, PenaltyNumbers, PolicyKind } from "../core/compiled-policy.ts";
export type { Allowed, Decision, DecisionFields, DecisionSource, Denied, Inspection } from "../core/decision.ts";
export type { LimiterEvent, OnEvent } from "../core/events.ts";
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
export type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
export type { CallState, Consistency, PolicyBuckets, Store, SyncStore } from "../core/store.ts";
export { concurrency, type LeaseOptions } from "../holds/concurrency.ts";
export { hold, holdSync, settle } from "../holds/hold.ts";
export { type HoldCharge, holdAll } from "../holds/hold-all.ts";
export type { Hold, HoldDecision, HoldMethods, HoldOptions, RenewOptions, Settlement } from "../holds/hold-options.ts";
export { combine } from "../joint/combine.ts";
export { consumeAll, type LimiterCharge } from "../joint/consume-all.ts";
export { type MemoryStore, type MemoryStoreOptions, memoryStore } from "../memory/memory-store.ts";
export { type MemoryRateLimiter, memoryRateLimiter } from "../memory/rate-limiter.ts";
export { penalty } from "../penalties/penalty.ts";
export { block, strike, unblock } from "../penalties/strikes.ts";
export { parsePolicy } from "../policy/policy-text.ts";
export {
  type BurstOptions,
  fixedWindow,
  type LabelOptions,
  leakyBucket,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "../policy/shorthand.ts";
export type { PolicyText } from "../policy/text-type.ts";
export { createLimiter, type LimiterOptions } from "../remote/create-limiter.ts";
export type { FailureOptions } from "../remote/failure-options.ts";
