/** Events of a limiter, besides its decisions. */
import type { SluiceError } from "../base/errors.ts";
import { callListener } from "../base/listeners.ts";

/** Something that happened once, such as a store that became unavailable. */
export type LimiterEvent =
  /** The store failed several times in a row. Decisions are made without it until it recovers. */
  | { readonly type: "store-down"; readonly policy: string; readonly error: SluiceError }
  /** The store replies again. */
  | { readonly type: "store-up"; readonly policy: string; readonly downMs: number }
  /**
   * Calls to the store failed, but too few in a row for `store-down`, and were decided without it. Emitted when it replies
   * again, at most once a minute; `count` is the number of calls that failed since the last event.
   */
  | { readonly type: "degraded"; readonly policy: string; readonly error: SluiceError; readonly count: number }
  /** A key in the store has a value that sluice did not write. It is decided without the store until it is reset. */
  | { readonly type: "foreign-value"; readonly policy: string; readonly error: SluiceError }
  /** A refund did not reach the store. The cost stays charged until it refills. */
  | { readonly type: "refund-lost"; readonly policy: string; readonly cost: number; readonly error: SluiceError }
  /** A settlement did not reach the store before the hold ended, so the held amount was charged instead of the cost. */
  | { readonly type: "settle-lost"; readonly policy: string; readonly cost: number; readonly error: SluiceError }
  /** A hold could not be renewed before it ended. Its work is no longer counted. */
  | { readonly type: "hold-lost"; readonly policy: string; readonly error: SluiceError }
  /** A settlement exceeded what the key can owe, which is one limit. `cost` was not charged. */
  | { readonly type: "cost-forgiven"; readonly policy: string; readonly cost: number }
  /** A caller has a plan that the rules don't list, and is limited by their `defaultPlan`. Once per value. */
  | { readonly type: "unknown-plan"; readonly policy: string; readonly plan: string }
  /** The function `overrides` of a rule set failed. The last known override or the rule's own limit applies. */
  | { readonly type: "override-failed"; readonly policy: string; readonly error: SluiceError }
  /** A list of `abuse` could not be loaded. The old list stays in use; without one, the list is empty. */
  | { readonly type: "list-stale"; readonly policy: string; readonly list: string; readonly error: SluiceError }
  /** The provider of challenges could not verify a solution, so the request was denied. */
  | { readonly type: "provider-down"; readonly policy: string; readonly provider: string; readonly error: SluiceError }
  /**
   * The response to a request with an idempotency key was not stored: its body is `"too-long"` or an endless `"stream"`,
   * the handler `"failed"` or was `"aborted"`, or the store `"refused"` it or failed (`"store"`).
   */
  | {
      readonly type: "response-not-stored";
      readonly policy: string;
      readonly scope: string;
      readonly key: string;
      readonly status?: number;
      readonly reason: "too-long" | "stream" | "failed" | "aborted" | "refused" | "store";
      readonly error?: SluiceError;
    }
  /** A request lost its lease on an idempotency key while it ran. Another may have run with the key. */
  | { readonly type: "lease-lost"; readonly policy: string; readonly scope: string; readonly key: string }
  /**
   * The idempotency store in memory is full and evicted responses that had not expired, lately of this scope, which used
   * most of it. Their requests would run again. Emitted at most once a minute; `count` is the number since the last event.
   */
  | { readonly type: "evicted"; readonly policy: string; readonly scope: string; readonly count: number }
  /** Something works, but not as it should. */
  | { readonly type: "warning"; readonly policy: string; readonly message: string };

/** A listener for events. It is not awaited, and its errors do not affect decisions. */
export type OnEvent = (event: LimiterEvent) => void;

/** A change of state. Observers use the members that contain no keys, and ignore the others. */
export interface ObservedEvent {
  readonly type: string;
  readonly policy?: string;
  readonly error?: SluiceError;
  readonly message?: string;
  readonly cost?: number;
  readonly downMs?: number;
  readonly list?: string;
  readonly provider?: string;
  readonly reason?: string;
  readonly version?: string;
  readonly changes?: number;
  readonly count?: number;
}

/** What receives the events of a limiter: the callback of the application, and an observer. */
export interface EventTarget {
  readonly onEvent: OnEvent | undefined;
  readonly observed?: EventObserver | undefined;
}

/** An observer, and the next one of the same limiter. */
interface EventObserver {
  readonly port: { transition(event: ObservedEvent): void };
  readonly next?: EventObserver | undefined;
}

/** Emits an event. */
export function emit({ onEvent, observed }: EventTarget, event: LimiterEvent): void {
  callListener("onEvent", onEvent, event);
  for (let own = observed; own; own = own.next) own.port.transition(event);
}

/** Emits an event of one part of a limiter. */
export function emitFor(
  {
    context,
    observed,
  }: { readonly context: { readonly onEvent: OnEvent | undefined } } & Pick<EventTarget, "observed">,
  event: LimiterEvent,
): void {
  emit({ onEvent: context.onEvent, observed }, event);
}
