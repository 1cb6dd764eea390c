/** The options for a store that can fail. */
import type { Charge } from "../core/charge.ts";
import { type CompiledPolicy, fingerprintOf } from "../core/compiled-policy.ts";
import { optionError } from "../core/errors.ts";
import { type ObserverLike, observerPort, type PolicyObserver } from "../core/observer.ts";
import { checkWhole } from "../core/options.ts";
import { parseDuration } from "../policy/rate.ts";
import type { Store } from "../core/store.ts";
import type { OnEvent } from "../core/events.ts";

/** How a call is handled without the store: decided in this process, allowed, denied, or rejected. */
export type OnStoreError = "local" | "open" | "closed" | "throw";

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

/** The validated options of one limiter. */
export interface FailurePolicy {
  readonly onStoreError: OnStoreError;
  readonly deadlineMs: number;
  readonly localDenialMs: number;
  readonly onEvent: OnEvent | undefined;
  /** The counters of the policy, if it is observed. */
  readonly observed: PolicyObserver | undefined;
  /** The failure policy that this one was copied from, to add `observed`. */
  readonly copyOf?: FailurePolicy | undefined;
  /** Called when its limiter is disposed of. Set by what has to end with the limiter. */
  onDispose?: (() => Promise<unknown>) | undefined;
  /** This process's share of the policy, for the fallback. */
  readonly localPolicy: CompiledPolicy;
}

/** A charge, and what its limiter does without the store. */
export interface PartCharge extends Charge {
  readonly failurePolicy: FailurePolicy;
  /** Of a hold: whether its id is new, so that a cached denial of the key applies to it. */
  readonly isNewHold?: boolean | undefined;
}

const CHOICES: readonly string[] = ["local", "open", "closed", "throw"];
const MAX_WAIT_MS = 3_600_000;

/** The default failure policy. A memory store needs no other one, and no checks of options. */
export function defaultFailurePolicy(policy: CompiledPolicy): FailurePolicy {
  return {
    onStoreError: "local",
    deadlineMs: 250,
    localDenialMs: 1000,
    onEvent: undefined,
    observed: undefined,
    localPolicy: policy,
  };
}

/** Validates the options. Throws an error that names the option. */
export function parseFailureOptions(options: FailureOptions, policy: CompiledPolicy, store?: Store): FailurePolicy {
  const {
    onStoreError,
    deadlineMs,
    localDenialMs,
    onEvent,
    instances = 1,
  } = {
    ...defaultFailurePolicy(policy),
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
    observed: store && observerPort(options.observer)?.policy(policy, store),
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
