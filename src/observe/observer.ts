/** Collects every decision and every change of state, and makes them available as events, log lines and metrics. */

import { BoundedMap } from "../base/bounded-map.ts";
import { type Clock, checkedClock, monotonicMs, wallClockMs } from "../base/clock.ts";
import { optionError } from "../base/errors.ts";
import { hmacTagger } from "../base/hmac-tag.ts";
import { callListener } from "../base/listeners.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import { type Act, type Part, type PartGroup, type PolicyObserver, TAKE } from "../core/apply.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Decision } from "../core/decision.ts";
import type { ObservedEvent } from "../core/events.ts";
import {
  type DecidedCharge,
  type LimiterLike,
  OBSERVER,
  type ObservableHealth,
  type ObserverLike,
  type Outcome,
} from "../core/observer.ts";
import { takeCharge } from "../core/part-charges.ts";
import { isSync, type PolicyBuckets, type Store } from "../core/store.ts";
import type { RequestObserver, RequestObserverPort } from "../http/request-observer.ts";
import { healthOf } from "../remote/store-health.ts";
import { countDecisions } from "./decisions.ts";
import { ObservedDecision, type ObserverEvent, type TransitionEvent, transitionEvent } from "./events.ts";
import type { Logger } from "./json-log.ts";
import { LabelTable } from "./label-table.ts";
import { MemoryWatch } from "./memory-watch.ts";
import type { Metric } from "./metric.ts";
import { type MetricSources, metricsOf } from "./metrics.ts";
import { observeLimiter } from "./observed-limiter.ts";
import { COLUMN, OUTCOMES } from "./outcomes.ts";
import { PolicyCounters, PolicyCounts } from "./policy-counters.ts";
import { ObservedRequests } from "./requests.ts";
import { RuleCounts } from "./rule-counts.ts";
import { StoreStats } from "./store-stats.ts";
import { MAX_COUNTERS, type TopKey, TopKeys } from "./top-keys.ts";

/** Options of `createObserver`. */
export interface ObserverOptions {
  /** Writes log lines, such as `jsonLog(console.log)`. Default: none. */
  log?: Logger;
  /** HMAC key for tags; share it to get equal tags in all processes. Default: random per process. */
  secret?: string;
  /** Number of counters for the most denied keys. Default: 256. */
  topKeys?: number;
  /** Source of time, for tests. Default: the system clock. */
  clock?: Clock;
}

/** Observes limiters, rules and middleware. */
export interface Observer extends ObserverLike {
  /** Returns a limiter whose decisions are observed. */
  wrap<L extends LimiterLike>(limiter: L): L;
  /** Adds a listener and returns a function that removes it. Not awaited; exceptions become one process warning. */
  on(listener: (event: ObserverEvent) => void): () => void;
  /** Returns all metrics as data; the Prometheus and OpenTelemetry bridges read them. */
  metrics(): readonly Metric[];
  /** Returns the most denied keys, ranked by `atLeast`. Default: 10. */
  topKeys(n?: number): readonly TopKey[];
}

/** Series per metric: further labels are counted as `other`. */
const MAX_SERIES = 5000;
const MAX_ROWS = Math.floor(MAX_SERIES / OUTCOMES.length);
/** Backing services and policies that are remembered, to read their state. */
const MAX_STORES = 64;
const MAX_POLICIES = 1000;
/** Changes of state that are kept for the dashboard. */
const MAX_TRANSITIONS = 100;
const TAG_CHARS = 8;

/** Creates an observer. Pass it to `rateLimit({ observer })` or `createLimiter({ observer })`. */
export function createObserver(options: ObserverOptions = {}): Observer {
  checkOptions("createObserver", options, ["log", "secret", "topKeys", "clock"]);
  const { log, secret, topKeys = 256, clock } = options;
  if (log !== undefined && typeof log !== "function") {
    throw optionError("invalid-option", "log", "a function, such as jsonLog(console.log)", log);
  }
  if (secret !== undefined && (typeof secret !== "string" || secret.length < 16)) {
    // Not shown: it may be a real secret.
    throw optionError("invalid-option", "secret", "a text of at least 16 characters");
  }
  checkWhole("topKeys", topKeys, 1, MAX_COUNTERS);
  if (clock !== undefined && typeof clock?.now !== "function") {
    throw optionError("invalid-option", "clock", "an object with now()", clock);
  }
  const state = new ObserverState(log, secret, topKeys, clock && checkedClock(clock));
  return {
    [OBSERVER]: state,
    wrap: (limiter) => {
      if (typeof limiter === "object" && limiter !== null && typeof limiter.consume === "function") {
        return state.wrap(limiter);
      }
      throw optionError("invalid-limiter", "limiter", "a limiter", limiter);
    },
    on: (listener) => state.on(listener),
    metrics: () => metricsOf(state),
    topKeys: (n = 10) => state.keys.top(checkWhole("n", n, 1, MAX_COUNTERS), state.now()),
  };
}

/** The state of an observer. Not a part of the public contract. */
export class ObserverState implements RequestObserverPort, MetricSources {
  isListening = false;
  readonly startedAt: number;
  readonly requestsByRule: LabelTable<RuleCounts>;
  readonly policies: LabelTable<PolicyCounts>;
  readonly stores: Map<object, StoreStats> = new Map();
  readonly memory: MemoryWatch;
  readonly challenges: LabelTable<Map<string, number>>;
  readonly idempotencyStates: Map<string, number> = new Map();
  readonly reloads: Map<string, number> = new Map();
  /** Version of the rules in force, and since when, in epoch ms. */
  rulesInForce: { readonly version: string; readonly since: number } | undefined;
  /** The most denied keys. */
  readonly keys: TopKeys;
  /** The same for limits that are not enforced. */
  readonly shadowKeys: TopKeys;
  /** The last changes of state, oldest first. */
  readonly transitions: TransitionEvent[] = [];
  /** The policies that keys are looked up in. */
  readonly known: BoundedMap<string, { readonly policy: CompiledPolicy; readonly store: Store }> = new BoundedMap({
    maxEntries: MAX_POLICIES,
  });
  private readonly observers: WeakMap<CompiledPolicy, PolicyObserver> = new WeakMap();
  private readonly storeNumbers: WeakMap<Store, number> = new WeakMap();
  private numberedStores = 0;
  private readonly named_: Map<string, PolicyObserver> = new Map();
  private readonly wrapped: WeakMap<object, object> = new WeakMap();
  private readonly listeners: Set<(event: ObserverEvent) => void> = new Set();
  private readonly durationListeners: ((store: string, seconds: number) => void)[] = [];
  private readonly log: Logger | undefined;
  private readonly clock: Clock | undefined;
  private readonly secret: string | undefined;
  private tagger: ((key: string) => string) | undefined;

  constructor(log: Logger | undefined, secret: string | undefined, topKeys: number, clock: Clock | undefined) {
    this.log = log;
    this.secret = secret;
    this.clock = clock;
    this.startedAt = this.now();
    this.keys = new TopKeys(topKeys, (key) => this.tagOf(key));
    this.shadowKeys = new TopKeys(topKeys, (key) => this.tagOf(key));
    const table = <Row>(what: string, create: (label: string) => Row) =>
      new LabelTable(MAX_ROWS, create, () => {
        const message = `There are more than ${MAX_ROWS} ${what}, so further ones are counted as "other". Use fewer names, not one per customer.`;
        this.transition({ type: "warning", message });
      });
    this.requestsByRule = table("rules", () => new RuleCounts());
    this.policies = table("policies", (name) => new PolicyCounts(name));
    this.challenges = table("rules with challenges", () => new Map());
    this.memory = new MemoryWatch(
      () => this.now(),
      (store, count) => this.emit(transitionEvent({ type: "evicted", count }, this.now(), store)),
    );
    this.updateListening();
  }

  now(): number {
    return this.clock ? this.clock.now() : wallClockMs();
  }

  /** 8 hex digits that identify a key. */
  tagOf(key: string): string {
    // Created on first use: Workers have no random numbers before the first request.
    this.tagger ??= hmacTagger(this.secret ?? String(crypto.getRandomValues(new Uint32Array(8))));
    return this.tagger(key).slice(0, TAG_CHARS);
  }

  policy(policy: CompiledPolicy, store: Store): PolicyObserver {
    const known = this.observers.get(policy);
    if (isSync(store)) this.memory.add(store);
    else this.watch(healthOf(store), store.kind ?? "store");
    this.known.set(`${this.storeNumber(store)} ${policy.id}`, { policy, store });
    if (known) return known;
    const observer = new PolicyCounters(this, this.policies.row(policy.name), policy, monotonicMs);
    this.observers.set(policy, observer);
    return observer;
  }

  /** A number for each of the first stores. Further ones share 0, since limiters that are created per request have one each. */
  private storeNumber(store: Store): number {
    let number = this.storeNumbers.get(store);
    if (number === undefined && this.numberedStores < 2 * MAX_STORES) {
      this.storeNumbers.set(store, (number = ++this.numberedStores));
    }
    return number ?? 0;
  }

  /** The counters of a policy of a third-party limiter. */
  named(name: string): PolicyObserver {
    const counts = this.policies.row(name);
    let observer = this.named_.get(counts.name);
    if (!observer) this.named_.set(counts.name, (observer = new PolicyCounters(this, counts, undefined, monotonicMs)));
    return observer;
  }

  wrap<L extends LimiterLike>(limiter: L): L {
    if (typeof limiter !== "object" || limiter === null) return limiter;
    let wrapped = this.wrapped.get(limiter) as L | undefined;
    if (!wrapped) this.wrapped.set(limiter, (wrapped = observeLimiter(limiter, this, this)));
    return wrapped;
  }

  requests<Args extends readonly unknown[]>(reader: { method(args: Args): string }): RequestObserver<Args> {
    return new ObservedRequests(this, reader);
  }

  request(rule: string, outcome: Outcome, decision: Decision | undefined): void {
    this.requestsByRule.row(rule).count(COLUMN[outcome], decision);
  }

  count(groups: readonly PartGroup[], act: Act, decisions: readonly Decision[][], sentAt: number): void {
    countDecisions(groups, act, decisions, sentAt);
  }

  observeTakes(part: Part, buckets: PolicyBuckets): PolicyBuckets {
    return {
      take: (key, cost) => {
        const decision = buckets.take(key, cost);
        this.count([[takeCharge(part, key, cost)]], TAKE, [[decision]], 0);
        return decision;
      },
    };
  }

  decided(charge: DecidedCharge): void {
    const { outcome, rule, key } = charge;
    const time = this.now();
    // A store that is down denies everyone, so it says nothing about a key.
    if (outcome === "would-deny") this.shadowKeys.add(rule, key, time);
    else if (outcome !== "allowed" && outcome !== "unavailable") this.keys.add(rule, key, time);
    if (this.isListening || (this.log && outcome !== "allowed")) {
      this.emit(new ObservedDecision(charge, time, (key) => this.tagOf(key)));
    }
  }

  transition(event: ObservedEvent): void {
    this.emit(transitionEvent(event, this.now()));
  }

  challenge(rule: string, result: string): void {
    increment(this.challenges.row(rule), result);
  }

  idempotency(state: string): void {
    increment(this.idempotencyStates, state);
    if (state === "replayed") this.request("idempotent", "replayed", undefined);
  }

  rules(version: string, result: "loaded" | "applied" | "rejected"): void {
    if (result !== "loaded") increment(this.reloads, result);
    if (result !== "rejected") this.rulesInForce = { version, since: this.now() };
  }

  on(listener: (event: ObserverEvent) => void): () => void {
    if (typeof listener !== "function") throw optionError("invalid-option", "listener", "a function", listener);
    // A function of its own, so that a listener which is added twice is called twice, and each is removed once.
    const own = (event: ObserverEvent): void => callListener("A listener of an observer", listener, event);
    this.listeners.add(own);
    this.updateListening();
    return () => {
      this.listeners.delete(own);
      this.updateListening();
    };
  }

  watch(health: ObservableHealth, kind: string): void {
    if (this.stores.has(health) || this.stores.size >= MAX_STORES) return;
    const taken = new Set(Array.from(this.stores.values(), ({ name }) => name));
    let name = kind;
    for (let n = 2; taken.has(name); n++) name = `${kind}-${n}`;
    const stats = new StoreStats(name, (event, changed) => {
      if (event.type !== "degraded") changed.changedAt = this.now();
      this.emit(transitionEvent(event, this.now(), changed.name));
    });
    this.stores.set(health, stats);
    this.connectDurations(stats);
    health.observe(stats);
  }

  /** Calls a listener with the duration of every reply of every store, in seconds. */
  onDuration(listener: (store: string, seconds: number) => void): void {
    this.durationListeners.push(listener);
    for (const stats of this.stores.values()) this.connectDurations(stats);
  }

  private connectDurations(stats: StoreStats): void {
    const { durationListeners } = this;
    if (durationListeners.length === 0) return;
    stats.onReply = (seconds) => {
      try {
        for (const listener of durationListeners) listener(stats.name, seconds);
      } catch {
        // The caller waits for the reply, whether or not its duration could be recorded.
      }
    };
  }

  private emit(event: ObserverEvent | undefined): void {
    if (!event) return;
    if (event.type !== "decision" && this.transitions.push(event) > MAX_TRANSITIONS) this.transitions.shift();
    if (this.log) callListener("log of createObserver", this.log, event);
    for (const listener of this.listeners) listener(event);
  }

  private updateListening(): void {
    this.isListening = this.listeners.size > 0 || (this.log !== undefined && this.log.skipsAllowed !== true);
  }
}

function increment(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
