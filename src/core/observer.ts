/**
 * The contract between an observer and what it observes. Limiters, rules and middleware know nothing else about it, so an
 * application without `sluice/observe` does not contain it.
 */

import { optionError, type SluiceError } from "../base/errors.ts";
import type { CallObserver, PolicyObserver } from "./apply.ts";
import type { CompiledPolicy } from "./compiled-policy.ts";
import type { Decision } from "./decision.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import type { Store } from "./store.ts";

/** How a request or a decision ended. `would-deny`: a limit that is not enforced was exceeded. */
export type Outcome = "allowed" | "denied" | "would-deny" | "challenged" | "blocked" | "unavailable" | "replayed";

/** The member of an observer that limiters and middleware use. Registered, because the two builds of the package share it. */
export const OBSERVER: unique symbol = Symbol.for("sluice.observer") as never;

/** An observer as an option: the result of `createObserver` of `sluice/observe`. */
export interface ObserverLike {
  readonly [OBSERVER]: ObserverPort;
}

/** What is observed. Nothing here throws, and nothing is awaited. */
export interface ObserverPort extends CallObserver {
  /** Whether allowed decisions are reported, and not only counted. */
  readonly isListening: boolean;
  /** The counters of a policy. Remembers the policy and its store, to look up keys and to read the store's state. */
  policy(policy: CompiledPolicy, store: Store): PolicyObserver;
  /** Returns a limiter whose decisions are observed. Returns a limiter that this observer observes already. */
  wrap<L extends LimiterLike>(limiter: L): L;
  /** Reports a decision, unless it was allowed and nothing listens. */
  decided(decided: DecidedCharge): void;
  /** Counts a request. `decision` is `undefined` if nothing was charged. */
  request(rule: string, outcome: Outcome, decision: Decision | undefined): void;
  /** Counts a challenge. `rule` is empty unless the challenge is issued: a solution does not name its rule. */
  challenge(rule: string, result: "issued" | "solved" | "failed" | "provider-down"): void;
  /** Observes the calls of a backing service, once. `kind` is its name in metrics. */
  watch(health: ObservableHealth, kind: string): void;
  /** Counts a request with an idempotency key. */
  idempotency(state: "started" | "replayed" | "in-progress" | "key-reused"): void;
  /** Remembers the rules in force, and whether a reload was applied. */
  rules(version: string, result: "loaded" | "applied" | "rejected"): void;
}

/** The methods of a limiter that are observed. */
export type LimiterLike = object & { consume(key: string, cost?: number): unknown } & Partial<
    Pick<RateLimiter, "consumeSync" | "getPolicy" | "getPolicies">
  > & {
    /** Of a third-party limiter. */
    hold?(key: string, amount?: number, options?: object): Promise<Decision>;
    /** Of a third-party limiter. */
    holdSync?(key: string, amount?: number, options?: object): Decision;
  };

/** A decision on one request, or on one call of a limiter. */
export interface DecidedCharge {
  /** The rule; without rules, the policy. */
  readonly rule: string;
  /** Name of the limiting policy. */
  readonly policy: string;
  readonly outcome: Outcome;
  readonly key: string;
  readonly cost: number;
  readonly decision: Decision;
  /** What the key identifies: `ip`, `user`, `tenant`. */
  readonly per?: string | undefined;
  /** Of a remote store: how long the caller waited, in ms. */
  readonly durationMs?: number | undefined;
  readonly method?: string | undefined;
  /** The pattern that the request matched, never its path. */
  readonly route?: string | undefined;
}

/** The health of a backing service. */
export interface ObservableHealth {
  observe(observer: StoreObserver): void;
}

/** Receives the calls of one backing service. Times are in ms. */
export interface StoreObserver {
  /** The service has replied. */
  replied(durationMs: number): void;
  /** A call failed, or was not sent because the circuit is open. */
  failed(error: SluiceError, isRejected: boolean): void;
  /** The circuit opened. */
  down(error: SluiceError): void;
  /** All circuits are closed again. */
  up(downMs: number): void;
  /** Calls failed, but too few in a row to open a circuit. `count` is the number since the last report. */
  degraded(error: SluiceError, count: number): void;
}

/** Returns the port of an observer; `undefined` if none was given. Throws if the value is not an observer. */
export function observerPort(observer: ObserverLike | undefined): ObserverPort | undefined {
  if (observer === undefined) return undefined;
  if (typeof observer === "object" && observer !== null && OBSERVER in observer) return observer[OBSERVER];
  throw optionError("invalid-option", "observer", "made by createObserver() of sluice/observe", observer);
}
