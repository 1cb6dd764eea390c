/** What a store promises: that a step is atomic. Nothing else is its business. */
import type { Group } from "./charge.ts";
import type { CompiledPolicy } from "./compile.ts";
import type { Decision, Inspection } from "./decision.ts";

/** Exact stores obey every law; approximate ones say so in each decision. */
export type Consistency = "exact" | "approximate";

/** Whether the caller has given up. Don't send an abandoned call: the fallback has decided, and the store would charge it again. */
export interface CallState {
  readonly abandoned: boolean;
}

/** Where buckets live. `storeSuite` of `sluice/testing` certifies one. */
export interface Store {
  /** Whether its decisions are exact or approximate by nature. */
  readonly consistency: Consistency;
  /** The same for stores that are one and the same, only called in different ways: they fail together. Default: itself. */
  readonly origin?: object | undefined;
  /** What users should know of how it is set up, if anything. The limiters on it tell it as an event. */
  readonly warning?: string | undefined;
  /** How long its answer may take where a limiter is told nothing else. Default: 250. */
  readonly deadlineMs?: number | undefined;
  /** Refuses what it can't do: a policy that it can't count, or charges of it that stand or fall with others. */
  check?(policy: CompiledPolicy, together: boolean): void;
  /** Each group is all or none; groups are independent and in order. One decision per charge. */
  apply(groups: readonly Group[], waiting?: CallState): Promise<Decision[][]>;
  /** Which part of the store a key lives in, if it has parts: a group has to stay in one. It depends on the key alone. */
  shardOf?(key: string): number | string;
  /** Whether its parts fail by themselves, as machines of their own, and not with the whole of it. */
  readonly failsPerShard?: boolean | undefined;
  /** Forgets a key. */
  reset(policy: CompiledPolicy, key: string): Promise<void>;
  /** Shows what is kept about a key. */
  inspect(policy: CompiledPolicy, key: string): Promise<Inspection>;
  /** Gives up what the store holds, never what it was given. Later calls fail. */
  dispose(): Promise<void>;
}

/** A store that answers without waiting. */
export interface SyncStore extends Store {
  /** The buckets of one policy: the way of a single charge, which pays for no list. */
  open(policy: CompiledPolicy): PolicyBuckets;
  /** One key and cost to several policies, all or none: the way of `combine`. */
  takeAll(buckets: readonly PolicyBuckets[], key: string, cost: number): Decision[];
  /** One group, all or none. */
  applySync(group: Group): Decision[];
}

/** The buckets of one policy in a synchronous store. */
export interface PolicyBuckets {
  /** Takes `cost` from the key's bucket if it fits. */
  take(key: string, cost: number): Decision;
}

/** What a store is told from others by. */
export function originOf(store: Store): object {
  return store.origin ?? store;
}

/** Whether a store can answer in the same turn. */
export function isSync(store: Store): store is SyncStore {
  return "applySync" in store;
}
