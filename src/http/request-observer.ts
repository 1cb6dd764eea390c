/** The contract between middleware and an observer: what is observed about requests. */

import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Decision } from "../core/decision.ts";
import { type ObserverLike, type ObserverPort, observerPort } from "../core/observer.ts";
import type { RequestCharges } from "./request-charges.ts";

/** Observes the requests of one middleware. Nothing here throws, and nothing is awaited. */
export interface RequestObserver<Args extends readonly unknown[]> {
  readonly port: ObserverPort;
  /**
   * Applies the charges of a request. Its limiters count their decisions, and leave the report to this observer. `isEnforced`:
   * the middleware rejects the request if they are denied.
   */
  apply(charges: RequestCharges, isEnforced: boolean): MaybePromise<Decision>;
  /** Reports the decision on a request, and what the middleware does with a denial. */
  decided(args: Args, charges: RequestCharges, decision: Decision, action: "enforce" | "shadow" | "challenge"): void;
  /** Reports a CORS preflight that was denied. */
  preflight(args: Args, key: string, decision: Decision, isEnforced: boolean): void;
  /** Counts a request that was rejected without a charge: by a list or a trap of abuse prevention. */
  blocked(by: "list" | "trap"): void;
  /** Counts a request that could not be checked. */
  failed(isAllowed: boolean): void;
}

/** An observer as middleware uses it. */
export interface RequestObserverPort extends ObserverPort {
  requests<Args extends readonly unknown[]>(reader: { method(args: Args): string }): RequestObserver<Args>;
}

/** Observes the requests of a middleware; `undefined` without an observer. Throws if the option is not an observer. */
export function requestObserver<Args extends readonly unknown[]>(
  observer: ObserverLike | undefined,
  reader: { method(args: Args): string },
): RequestObserver<Args> | undefined {
  return (observerPort(observer) as RequestObserverPort | undefined)?.requests(reader);
}
