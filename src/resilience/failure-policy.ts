/** What a limiter does when its store can't be asked, and how that is chosen. */
import type { Charge } from "../core/charge.ts";
import type { CompiledPolicy } from "../core/compile.ts";
import type { Decision } from "../core/decision.ts";
import { optionError } from "../core/errors.ts";
import { checkWhole } from "../core/options.ts";
import { parseDuration } from "../core/rate.ts";
import type { Store } from "../core/store.ts";
import { emit, type OnEvent } from "./events.ts";
import type { StoreFailure, StoreHealth } from "./store-health.ts";

/** Decide in this process, let everything pass, deny everything, or throw. */
export type OnStoreError = "local" | "open" | "closed" | "throw";

/** What a limiter on a store that can fail may be told. A store in memory can't, and makes no use of it. */
export interface FailureOptions {
  /**
   * What to do when the store can't be asked. `"local"`: decide by the same policy in this process; `"open"`: allow;
   * `"closed"`: deny with `unavailable`; `"throw"`: reject. Default: `"local"`.
   */
  onStoreError?: OnStoreError;
  /** The longest that a call waits for the store, in milliseconds or as text. Default: 250; on Durable Objects and KV 1000. */
  deadlineMs?: number | string;
  /** How many processes share the policy: alone, each of them allows that part of it. Default: 1. */
  instances?: number;
  /** The longest that a denial is repeated without asking the store; 0 asks every time. Default: 1000. */
  localDenialMs?: number | string;
  /** Hears when the store fails and recovers, and what was lost meanwhile. */
  onEvent?: OnEvent;
}

/** The names of all these options. */
export const FAILURE_OPTIONS: readonly string[] = [
  "onStoreError",
  "deadlineMs",
  "instances",
  "localDenialMs",
  "onEvent",
];

/** The options of one limiter, checked. */
export interface FailurePolicy {
  readonly onStoreError: OnStoreError;
  readonly deadlineMs: number;
  readonly localDenialMs: number;
  readonly onEvent: OnEvent | undefined;
  /** The policy as one process of several applies it alone. */
  readonly localPolicy: CompiledPolicy;
}

const CHOICES: readonly string[] = ["local", "open", "closed", "throw"];
const MAX_WAIT_MS = 3_600_000;

/** The default failure policy. A memory store needs no other, and no checks of options. */
export function defaultFailurePolicy(policy: CompiledPolicy): FailurePolicy {
  return { onStoreError: "local", deadlineMs: 250, localDenialMs: 1000, onEvent: undefined, localPolicy: policy };
}

/** Checks the options, or refuses them by name. */
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
  // A bucket's rate is divided by making its unit larger; a window's is its limit.
  const unitsPerToken = policy.refills ? policy.unitsPerToken * instances : policy.unitsPerToken;
  const capacityUnits = limit * unitsPerToken;
  if (capacityUnits > Number.MAX_SAFE_INTEGER) {
    throw optionError("out-of-range", "instances", "a share of the policy that is exact", instances);
  }
  return Object.freeze({
    ...policy,
    // Its fill time differs, so its buckets in the fallback store are its own.
    id: `${policy.id}/${instances}`,
    limit,
    unitsPerToken,
    capacityUnits,
    windowMs: policy.refills ? Math.ceil(capacityUnits / policy.unitsPerMs) : policy.windowMs,
  });
}

/** What happens to requests without the store, for the warning. */
const EFFECTS: Readonly<Record<OnStoreError, string>> = {
  local: 'each process limits on its own (onStoreError: "local").',
  open: 'requests are allowed without being counted (onStoreError: "open").',
  closed: 'requests are rejected (onStoreError: "closed").',
  throw: 'calls are rejected (onStoreError: "throw").',
};

/** A charge, and what its limiter does without the store. */
export interface CaredCharge extends Charge {
  readonly failurePolicy: FailurePolicy;
}

/** Decides a group of takes or looks without the store, each charge as its own limiter wants it; all or none. */
export function decideWithout(
  charges: readonly CaredCharge[],
  guard: StoreHealth,
  fault: StoreFailure,
  now: number,
): Decision[] {
  const { error, part } = fault;
  if (charges.some(({ failurePolicy }) => failurePolicy.onStoreError === "throw")) throw error;
  guard.warnUnavailable(fault, EFFECTS[(charges[0] as CaredCharge).failurePolicy.onStoreError]);
  if (guard.isFirstReport(error)) {
    for (const { failurePolicy, policy } of charges)
      emit(failurePolicy.onEvent, { type: "foreign-value", policy: policy.name, error });
  }
  const retryAfterMs = guard.breaker.retryAfterMs(part, now);
  const denied = charges.some(
    ({ failurePolicy, policy, cost }) =>
      failurePolicy.onStoreError !== "local" &&
      (cost > policy.limit || (failurePolicy.onStoreError === "closed" && cost > 0)),
  );
  const own = charges.filter(({ failurePolicy }) => failurePolicy.onStoreError === "local");
  const decided = guard.local.applySync(
    // What is denied by another part takes nothing here either.
    own.map(({ failurePolicy, key, cost, mode }) => ({
      policy: failurePolicy.localPolicy,
      key,
      cost,
      mode: denied ? "peek" : mode,
    })),
  );
  return charges.map((charge) => {
    const i = own.indexOf(charge);
    return i < 0 ? without(charge, retryAfterMs) : locally(charge, decided[i] as Decision, retryAfterMs);
  });
}

function without({ policy, cost, failurePolicy }: CaredCharge, retryAfterMs: number): Decision {
  const { name, limit } = policy;
  const open = failurePolicy.onStoreError === "open";
  const figures = { policy: name, limit, remaining: open ? limit : 0, resetAfterMs: 0, nextAfterMs: 0, degraded: true };
  // What never fits, and what is free, can be told without any store.
  if (cost > limit) return { ...figures, allowed: false, retryAfterMs: null, degraded: true };
  if (open || cost === 0) return { ...figures, allowed: true, degraded: true };
  return {
    allowed: false,
    policy: name,
    limit,
    remaining: 0,
    resetAfterMs: retryAfterMs,
    nextAfterMs: retryAfterMs,
    retryAfterMs,
    unavailable: true,
  };
}

function locally({ policy, cost }: CaredCharge, decision: Decision, retryAfterMs: number): Decision {
  // More than this process's share, but not more than the policy's: the store may allow it when it is back.
  if (!decision.allowed && decision.retryAfterMs === null && cost <= policy.limit) {
    return { ...decision, retryAfterMs, degraded: true };
  }
  return { ...decision, degraded: true };
}
