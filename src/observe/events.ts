/** The events of an observer. They contain tags in place of keys. */
import type { Decision, DecisionSource } from "../core/decision.ts";
import type { ObservedEvent } from "../core/events.ts";
import type { DecidedCharge, Outcome } from "../core/observer.ts";
import { type StoreErrorKind, storeErrorKind } from "./error-kind.ts";

/** A decision on a request, or on a call of a limiter outside of middleware. */
export interface DecisionEvent {
  /** The kind of event. */
  readonly type: "decision";
  /** Epoch milliseconds. */
  readonly time: number;
  /** The rule; without rules, the limiting policy. */
  readonly rule: string;
  /** Name of the limiting policy. */
  readonly policy: string;
  /** How it ended. */
  readonly outcome: Outcome;
  /** Where the decision was made. */
  readonly source: "store" | DecisionSource;
  /** What the key identifies, such as `ip` or `tenant`; `undefined` if it is not known. */
  readonly per: string | undefined;
  /** The cost that was asked for. */
  readonly cost: number;
  /** The largest cost that fits at once. */
  readonly limit: number;
  /** Cost that is left. */
  readonly remaining: number;
  /** Milliseconds until the cost fits; `null`: never. Absent if it was allowed. */
  readonly retryAfterMs?: number | null;
  /** Decided without the store, because it failed. */
  readonly degraded?: true;
  /** How long the caller waited for a remote store, in ms. */
  readonly durationMs?: number;
  /** The method of the request in upper case; `"other"` if it is not a common one. */
  readonly method?: string;
  /** The path pattern of the rule, never the path of the request. */
  readonly route?: string;
  /** Returns 8 hex digits that identify the key. An HMAC, computed on demand. */
  tag(): string;
}

/** What changed, or went wrong. */
export type TransitionType =
  | "store-down"
  | "store-up"
  | "degraded"
  | "foreign-value"
  | "refund-lost"
  | "settle-lost"
  | "hold-lost"
  | "cost-forgiven"
  | "warning"
  | "rules-replaced"
  | "rules-rejected"
  | "unknown-plan"
  | "override-failed"
  | "block-started"
  | "list-refreshed"
  | "list-stale"
  | "provider-down"
  | "evicted"
  | "response-not-stored"
  | "lease-lost";

/** A change of state, such as a store that became unavailable. */
export interface TransitionEvent {
  /** What changed. */
  readonly type: TransitionType;
  /** Epoch milliseconds. */
  readonly time: number;
  /** One sentence about it, without keys. */
  readonly message: string;
  /** Name of the policy that it concerns. */
  readonly policy?: string;
  /** The store, as in metrics. */
  readonly store?: string;
  /** Why the store failed. */
  readonly kind?: StoreErrorKind;
}

/** Everything that an observer reports. */
export type ObserverEvent = DecisionEvent | TransitionEvent;

/** The event of a decision. The key is private, so that serialising an event does not reveal it. */
export class ObservedDecision implements DecisionEvent {
  readonly type = "decision";
  readonly time: number;
  readonly rule: string;
  readonly policy: string;
  readonly outcome: Outcome;
  readonly source: "store" | DecisionSource;
  readonly per: string | undefined;
  readonly cost: number;
  readonly limit: number;
  readonly remaining: number;
  declare readonly retryAfterMs?: number | null;
  declare readonly degraded?: true;
  declare readonly durationMs?: number;
  declare readonly method?: string;
  declare readonly route?: string;
  readonly #key: string;
  readonly #tagOf: (key: string) => string;

  constructor(charge: DecidedCharge, time: number, tagOf: (key: string) => string) {
    const { rule, policy, outcome, key, cost, decision, per, durationMs, method, route } = charge;
    this.time = time;
    this.rule = rule;
    this.policy = policy;
    this.outcome = outcome;
    this.source = decision.source ?? "store";
    this.per = per;
    this.cost = cost;
    this.limit = decision.limit;
    this.remaining = decision.remaining;
    const given = { ...optionalFields(decision), durationMs, method, route };
    for (const [name, value] of Object.entries(given)) if (value !== undefined) Object.assign(this, { [name]: value });
    this.#key = key;
    this.#tagOf = tagOf;
  }

  tag(): string {
    return this.#tagOf(this.#key);
  }
}

function optionalFields({ retryAfterMs, degraded }: Decision) {
  return { retryAfterMs, degraded };
}

/** The sentences about changes. Texts of errors and values of callers stay out: they may contain keys. */
const MESSAGES: Readonly<Record<TransitionType, (event: ObservedEvent, kind: string | undefined) => string>> = {
  "store-down": (_, kind) => `The store is unavailable (${kind}).`,
  "store-up": ({ downMs = 0 }) => `The store replies again after ${downMs} ms.`,
  degraded: ({ count }, kind) => `${count === 1 ? "A call" : `${count} calls`} to the store failed (${kind}).`,
  "foreign-value": () => "A key in the store has a value that sluice did not write.",
  "refund-lost": ({ cost }) => `A refund of ${cost} did not reach the store.`,
  "settle-lost": ({ cost }) => `A settlement of ${cost} did not reach the store before the hold ended.`,
  "hold-lost": () => "A hold could not be renewed before it ended.",
  "cost-forgiven": ({ cost }) => `A settlement exceeded what a key can owe. ${cost} was not charged.`,
  warning: ({ message = "" }) => message,
  "rules-replaced": ({ version, changes = 0 }) =>
    `Rules ${version} are in force (${changes === 1 ? "1 change" : `${changes} changes`}).`,
  "rules-rejected": ({ version }) => `New rules were rejected. Rules ${version} stay in force.`,
  "unknown-plan": () => "A caller has a plan that the rules don't list, and is limited by defaultPlan.",
  "override-failed": () => "The function overrides failed, so the last known override or the rule's own limit applies.",
  "block-started": () => "A key was blocked.",
  "list-refreshed": ({ list }) => `The list "${list}" was loaded.`,
  "list-stale": ({ list }) => `The list "${list}" could not be loaded. The old one stays in use.`,
  "provider-down": ({ provider }) => `The challenge provider "${provider}" could not verify a solution.`,
  evicted: ({ count = 1, policy }) =>
    policy === ""
      ? `The idempotency store in memory evicted ${count} ${count === 1 ? "response" : "responses"}. Raise maxEntries or maxBytes.`
      : `The memory store evicted ${count} ${count === 1 ? "key" : "keys"} in use. Raise maxKeys.`,
  "response-not-stored": ({ reason }) =>
    `The response to a request with an idempotency key was not stored (${reason}).`,
  "lease-lost": () => "A request lost its lease on an idempotency key while it ran.",
};

/** The event of a change; `undefined` for one that is not known. */
export function transitionEvent(event: ObservedEvent, time: number, store?: string): TransitionEvent | undefined {
  const type = event.type as TransitionType;
  if (!Object.hasOwn(MESSAGES, type)) return undefined;
  const kind = event.error && STORE_EVENTS.includes(type) ? storeErrorKind(event.error, false) : undefined;
  const message = MESSAGES[type](event, kind);
  return {
    type,
    time,
    message,
    ...(event.policy && { policy: event.policy }),
    ...(store !== undefined && { store }),
    ...(kind && { kind }),
  };
}

/** Events whose error is that of a store. */
const STORE_EVENTS: readonly TransitionType[] = [
  "store-down",
  "degraded",
  "foreign-value",
  "refund-lost",
  "settle-lost",
  "hold-lost",
];
