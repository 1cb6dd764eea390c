/** The options for a store that can fail. */

import { optionError } from "../base/errors.ts";
import { checkWhole } from "../base/options.ts";
import { parseDuration } from "../base/rate.ts";
import type { LimiterContext, OnStoreError } from "../core/apply.ts";
import { type CompiledPolicy, fingerprintOf } from "../core/compiled-policy.ts";
import type { OnEvent } from "../core/events.ts";
import { defaultContext } from "../core/limiter.ts";
import type { ObserverLike } from "../core/observer.ts";
import type { Store } from "../core/store.ts";

/** Options for a store that can fail, and an observer. A memory store can't fail, and ignores all others. */
export interface FailureOptions {
  /**
   * How to handle calls while the store is unavailable. `"local"`: decide by the same policy in this process; `"open"`: allow (fail
   * open); `"closed"`: deny with `unavailable` (fail closed); `"throw"`: reject. Default: `"local"`.
   */
  onStoreError?: OnStoreError;
  /** Maximum time to wait for the store, in ms or as text. Default: 250; on Durable Objects and KV 1000. */
  deadlineMs?: number | string;
  /** Number of processes that share the policy. While the store is unavailable, each allows its share. Default: 1. */
  instances?: number;
  /** Maximum time to repeat a denial without a round trip, in ms or as text; 0 turns that off. Default: 1000. */
  localDenialMs?: number | string;
  /** Called when the store fails and recovers, and with what was lost meanwhile. Default: one process warning. */
  onEvent?: OnEvent;
  /** Counts and reports decisions: the result of `createObserver` of `sluice/observe`. Default: none. */
  observer?: ObserverLike;
}

/** The names of these options. */
export const FAILURE_OPTIONS: readonly string[] = [
  "onStoreError",
  "deadlineMs",
  "instances",
  "localDenialMs",
  "onEvent",
  "observer",
];

const CHOICES: readonly string[] = ["local", "open", "closed", "throw"];
const MAX_WAIT_MS = 3_600_000;

/** Validates the options. Throws an error that names the option. */
export function parseFailureOptions(options: FailureOptions, policy: CompiledPolicy, store?: Store): LimiterContext {
  const {
    onStoreError,
    deadlineMs,
    localDenialMs,
    onEvent,
    instances = 1,
  } = {
    ...defaultContext(policy),
    ...(store?.deadlineMs && { deadlineMs: store.deadlineMs }),
    ...given(options),
  };
  if (!CHOICES.includes(onStoreError)) {
    throw optionError("invalid-option", "onStoreError", `one of ${CHOICES.join(", ")}`, onStoreError);
  }
  if (onEvent !== undefined && typeof onEvent !== "function") {
    throw optionError("invalid-option", "onEvent", "a function", onEvent);
  }
  return {
    onStoreError,
    deadlineMs: checkWhole("deadlineMs", parseDuration("deadlineMs", deadlineMs), 1, MAX_WAIT_MS),
    localDenialMs: checkWhole("localDenialMs", parseDuration("localDenialMs", localDenialMs), 0, MAX_WAIT_MS),
    onEvent,
    localPolicy: shareOf(policy, checkWhole("instances", instances, 1, 1_000_000)),
  };
}

/** The options that are not `undefined`. */
function given(options: FailureOptions): FailureOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** An equal share of a policy, never less than 1 at once. */
function shareOf(policy: CompiledPolicy, instances: number): CompiledPolicy {
  if (instances === 1) return policy;
  const limit = Math.max(1, Math.floor(policy.limit / instances));
  // The rate of a bucket is divided by making its tokens larger; that of a window follows from its limit.
  const unitsPerToken = policy.refills ? policy.unitsPerToken * instances : policy.unitsPerToken;
  const capacityUnits = limit * unitsPerToken;
  if (capacityUnits > Number.MAX_SAFE_INTEGER) {
    throw optionError("out-of-range", "instances", "a smaller number, because the share must be exact", instances);
  }
  const windowMs = policy.refills ? Math.ceil(capacityUnits / policy.unitsPerMs) : policy.windowMs;
  // Its fill time differs, so its buckets in the fallback are its own.
  const id = `${policy.id}/${instances}`;
  const numbers = { limit, windowMs, unitsPerToken, unitsPerMs: policy.unitsPerMs };
  return Object.freeze({ ...policy, ...numbers, id, capacityUnits, fingerprint: fingerprintOf(id, numbers) });
}
