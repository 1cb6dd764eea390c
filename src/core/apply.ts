/**
 * The one function that decides: `Apply`. A store is behind one, a limiter in front of one, and nothing else decides, except
 * that rates in memory are taken from their buckets directly (limiter.ts). What has to happen around a call is a list of
 * steps, and what a call means to them is data: an act.
 */

import { isPromise, type MaybePromise } from "../base/maybe-promise.ts";
import type { Charge } from "./charge.ts";
import type { CompiledPolicy } from "./compiled-policy.ts";
import type { Decision, DecisionSource, Inspection } from "./decision.ts";
import type { ObservedEvent, OnEvent } from "./events.ts";
import type { PolicyBuckets, Store, StoreFailure, SyncStore } from "./store.ts";

/** How a call is handled without the store: decided in this process, allowed, denied, or rejected. */
export type OnStoreError = "local" | "open" | "closed" | "throw";

/** The validated options of one limiter, which also identify it. */
export interface LimiterContext {
  readonly onStoreError: OnStoreError;
  readonly deadlineMs: number;
  readonly localDenialMs: number;
  readonly onEvent: OnEvent | undefined;
  /** This process's share of the policy, for the fallback. */
  readonly localPolicy: CompiledPolicy;
  /** Called when the limiter is disposed of. Set by what has to end with it. */
  onDispose?: (() => Promise<unknown>) | undefined;
}

/** One policy on one store, with the options of its limiter. */
export interface Part {
  readonly engine: Engine;
  readonly policy: CompiledPolicy;
  readonly context: LimiterContext;
  /** The counters of the policy, if it is observed. */
  readonly observed?: PolicyObserver | undefined;
}

/** Observes calls. Nothing here throws. */
export interface CallObserver {
  /** Counts the decisions on charges for all of their observers, and reports them unless the caller does. */
  count(groups: readonly PartGroup[], act: Act, decisions: readonly Decision[][], sentAt: number): void;
  /** The same buckets, whose takes are counted as calls with the act `TAKE`. */
  observeTakes(part: Part, buckets: PolicyBuckets): PolicyBuckets;
  /** Reports a change of state. */
  transition(event: ObservedEvent): void;
}

/** The counters of one policy. */
export interface PolicyObserver {
  readonly port: CallObserver;
  /** The counters of another observer of the same limiter. */
  readonly next?: PolicyObserver | undefined;
  /** The policy's name, or `other` if there are too many. */
  readonly name: string;
  /** Counts a decision, and detects a block that starts. `isEnforced`: exceeding the limit denies the request. */
  count(decision: Decision, key: string, cost: number, isEnforced: boolean): void;
  /** Counts the actual cost of what was held. */
  settled(cost: number): void;
  /** Counts a block, if the decision is the one that has started it. */
  detectBlock(decision: Decision, key: string): void;
  /** Counts a block of a key. */
  blocked(key: string, forMs: number): void;
}

/** One charge to one part. Stores read the members of `Charge`, and ignore the others. */
export interface PartCharge extends Charge, Part {
  /** Of a hold: whether its id is new, so that a cached denial of the key applies to it. */
  readonly isNewHold?: boolean | undefined;
}

/** Charges that are applied all or nothing. */
export type PartGroup = readonly PartCharge[];

/** What a call means to the steps around it. One constant per verb. */
export interface Act {
  /** Whether a cached denial answers it, and its denials are cached. */
  readonly isCached?: true | undefined;
  /** Whether it may free budget: cached denials of its keys end. */
  readonly frees?: true | undefined;
  /** Whether an observer counts its decisions. */
  readonly isObserved?: true | undefined;
  /**
   * What is done if the store fails. `"decide"`: each limiter's `onStoreError` decides. `"lose"`: emits `refund-lost`, and
   * returns no decisions. `"lose-or-throw"`: the same, but throws if a limiter's `onStoreError` is `"throw"`. `"throw"`:
   * throws, because the caller has to know.
   */
  readonly without: "decide" | "lose" | "lose-or-throw" | "throw" | WithoutStore;
  /** Set for a settlement of what was granted without the store: it is applied to the fallback instead of the store. */
  readonly source?: DecisionSource | undefined;
  /** Called for each charge of an admitted group. Only of holds. */
  readonly applied?: ((charge: PartCharge) => void) | undefined;
  /** Called for each charge that the store may have applied, or not. Only of holds. */
  readonly failed?: ((charge: PartCharge, failure: StoreFailure) => void) | undefined;
  /** Cancels what was granted, because another charge of the group was denied. Only of holds. */
  readonly undo?: ((charge: PartCharge, decision: Decision) => MaybePromise<unknown>) | undefined;
  /**
   * The number of groups, from the first, that deny a request. Further ones are only counted, such as rules in shadow mode;
   * 0 in a middleware in shadow mode. Default: all.
   */
  readonly enforcedGroups?: number | undefined;
  /** The observer that the caller reports the decision to, as a middleware does. That observer only counts the call. */
  readonly reporter?: object | undefined;
}

/** A request whose middleware reports the decision to its observer. */
export interface ReportedRequest {
  readonly reporter: object;
  /** Whether a denial rejects the request. */
  readonly isEnforced: boolean;
}

/** The same act as a part of such a request. */
export function actIn(request: ReportedRequest | undefined, act: Act): Act {
  if (!request) return act;
  const { reporter, isEnforced } = request;
  return { ...act, reporter, enforcedGroups: isEnforced ? act.enforcedGroups : 0 };
}

/** Replaces the reply of a store that failed. `decide` returns what `without: "decide"` would. */
type WithoutStore = (
  groups: readonly PartGroup[],
  failure: StoreFailure,
  decide: (groups: readonly PartGroup[]) => Decision[][],
) => Decision[][];

/** Takes: `consume`. */
export const TAKE: Act = { isCached: true, isObserved: true, without: "decide" };
/** Records a strike, which is no decision on a request: `strike`. */
export const STRIKE: Act = { isCached: true, without: "decide" };
/** Looks without taking: `peek`. */
export const PEEK: Act = { without: "decide" };
/** Returns what was taken, for a caller: `refund`. */
export const REFUND: Act = { frees: true, without: "lose-or-throw" };
/** Returns what was taken, because another charge of its group was denied. */
export const UNDO: Act = { frees: true, without: "lose" };
/** Changes a bucket in a way that the caller relies on: `reset`, `block`. */
export const DEMAND: Act = { frees: true, without: "throw" };

/**
 * Applies groups in order, each all or nothing, and returns the decisions on each. All groups are of one shard. Fewer come
 * back if the first was denied from the cache, and none if the act loses them. `due`: when the caller stops waiting, in
 * monotonic ms; default: the shortest deadline of the limiters.
 */
export type Apply = (groups: readonly PartGroup[], act: Act, due?: number) => MaybePromise<Decision[][]>;

/** A store as limiters use it. */
export interface Engine {
  readonly store: Store;
  /** The store, if its decisions are synchronous: for limiters that have `consumeSync`. */
  readonly syncStore: SyncStore | undefined;
  /** What runs around every call. */
  readonly steps: readonly Step[];
  readonly apply: Apply;
  /** Returns what is stored for a key. Rejects if the store fails. */
  inspect(policy: CompiledPolicy, key: string, due: number): Promise<Inspection>;
}

/**
 * What happens around the call of a store; not for `inspect`. A call across shards runs the steps once for the whole, and for
 * each of its parts with an act that has neither `isCached` nor `isObserved`. `sentAt` is in monotonic ms, and 0 if every
 * store is synchronous. A step must not throw.
 */
export interface Step {
  /** Returns the decisions if the store need not be called. Steps further down the list don't see such a call. */
  before?(groups: readonly PartGroup[], act: Act, sentAt: number): Decision[][] | undefined;
  /**
   * Runs in the tick of the reply, so a step costs no promise. Decisions without the store have a `source`; there are none if
   * the call was lost or rejected.
   */
  after?(groups: readonly PartGroup[], act: Act, decisions: readonly Decision[][], sentAt: number): void;
}

/** Runs the steps around a call that consists of several. The decisions of `before` are returned instead. */
export function withSteps(
  steps: readonly Step[],
  groups: readonly PartGroup[],
  act: Act,
  sentAt: number,
  call: () => MaybePromise<Decision[][]>,
): MaybePromise<Decision[][]> {
  const known = runBefore(steps, groups, act, sentAt);
  if (known) return known;
  const finish = (decisions: Decision[][]): Decision[][] => {
    for (const step of steps) step.after?.(groups, act, decisions, sentAt);
    return decisions;
  };
  const decided = call();
  return isPromise(decided) ? decided.then(finish) : finish(decided);
}

/** The decisions of the first step that has some. The steps in front of it see them as well. */
export function runBefore(
  steps: readonly Step[],
  groups: readonly PartGroup[],
  act: Act,
  sentAt: number,
): Decision[][] | undefined {
  for (let i = 0; i < steps.length; i++) {
    const known = (steps[i] as Step).before?.(groups, act, sentAt);
    if (!known) continue;
    while (i-- > 0) (steps[i] as Step).after?.(groups, act, known, sentAt);
    return known;
  }
  return undefined;
}

/** Counts the decisions on charges that are observed. */
export const observeStep: Step = {
  after(groups, act, decisions, sentAt) {
    if (!act.isObserved) return;
    for (const group of groups) {
      for (const { observed } of group) {
        if (observed) return observed.port.count(groups, act, decisions, sentAt);
      }
    }
  },
};

/** The steps of a store that decides synchronously, and of calls to several stores. */
export const observeSteps: readonly Step[] = [observeStep];

/** The engine of a store that decides synchronously. It can't fail, and needs no cache. */
export function syncEngine(store: SyncStore): Engine {
  return {
    store,
    syncStore: store,
    steps: observeSteps,
    apply(groups, act) {
      const decisions = groups.length === 1 ? [store.applySync(groups[0] as PartGroup)] : applyAll(store, groups);
      observeStep.after?.(groups, act, decisions, 0);
      return decisions;
    },
    inspect: (policy, key) => store.inspect(policy, key),
  };
}

function applyAll(store: SyncStore, groups: readonly PartGroup[]): Decision[][] {
  return groups.map((group) => store.applySync(group));
}

/** The shortest deadline of the limiters, in ms. */
export function deadlineOf(groups: readonly PartGroup[]): number {
  let least = Number.POSITIVE_INFINITY;
  for (const group of groups) for (const { context } of group) least = Math.min(least, context.deadlineMs);
  return least;
}
