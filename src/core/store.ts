/** The contract of a store: it makes a group of charges atomic, and nothing else. */

import type { SluiceError } from "../base/errors.ts";
import type { Group } from "./charge.ts";
import type { CompiledPolicy, Mode } from "./compiled-policy.ts";
import type { Decision, Inspection } from "./decision.ts";

/** Whether every law holds (`"exact"`), or decisions are best effort and marked `approximate`. */
export type Consistency = "exact" | "approximate";

/** Whether the caller has given up. Don't send an abandoned call: the fallback has decided, and the store would charge it again. */
export interface CallState {
  /** Whether the deadline has passed or the caller has stopped waiting. */
  readonly abandoned: boolean;
}

/** Where buckets are kept. `storeSuite` of `sluice/testing` certifies a store. */
export interface Store {
  /** Whether its decisions are exact or approximate. */
  readonly consistency: Consistency;
  /** What kind of store it is, for metrics: `"redis"`. Default: `"store"`. */
  readonly kind?: string | undefined;
  /** Identifies the backing service. Stores with the same origin share one circuit breaker. Default: the store itself. */
  readonly origin?: object | undefined;
  /** A warning about its set-up. Limiters on it emit it as an event. Default: none. */
  readonly warning?: string | undefined;
  /** Default deadline in ms of limiters on it. Default: 250. */
  readonly deadlineMs?: number | undefined;
  /** Throws if it can't count a policy, can't charge it together with others (`isGroup`), or doesn't support a mode. */
  check?(policy: CompiledPolicy, isGroup: boolean, mode?: Mode): void;
  /** Applies groups of charges in order, each all or nothing. Returns one decision per charge. */
  apply(groups: readonly Group[], call?: CallState): Promise<Decision[][]>;
  /** The shard of a key, if the store has shards. A group has to stay in one. Depends on the key alone. */
  shardOf?(key: string): number | string;
  /** Whether its shards fail independently of each other. Default: false. */
  readonly failsPerShard?: boolean | undefined;
  /** Returns what is stored for a key. */
  inspect(policy: CompiledPolicy, key: string): Promise<Inspection>;
  /** Releases the store's own resources, and never a client that it was given. Later calls fail. */
  dispose(): Promise<void>;
}

/** A store that decides synchronously. */
export interface SyncStore extends Store {
  /** Opens the buckets of one policy, for single charges without a list. */
  open(policy: CompiledPolicy): PolicyBuckets;
  /** Takes one cost of one key from several policies, all or nothing. */
  takeAll(buckets: readonly PolicyBuckets[], key: string, cost: number): Decision[];
  /** Applies one group, all or nothing. */
  applySync(group: Group): Decision[];
}

/** The buckets of one policy in a synchronous store. */
export interface PolicyBuckets {
  /** Takes `cost` from the key's bucket if it fits. */
  take(key: string, cost: number): Decision;
}

/** The backing service of a store. */
export function originOf(store: Pick<Store, "origin">): object {
  return store.origin ?? store;
}

/** Whether a store decides synchronously. */
export function isSync(store: Store): store is SyncStore {
  return "applySync" in store;
}

/** Why a store has not decided. Returned, not thrown: an outage would allocate an Error with a stack per call. */
export class StoreFailure {
  readonly error: SluiceError;
  /** The shard that failed, where shards fail independently. */
  readonly shard: number | string;
  /** Whether the store may have applied the call. */
  readonly wasSent: boolean;
  readonly isStoreFailure = true;

  constructor(error: SluiceError, shard: number | string, wasSent: boolean = error.option !== "client") {
    this.error = error;
    this.shard = shard;
    this.wasSent = wasSent;
  }
}

/** Not `instanceof`: another copy of the package may have called the store. */
export function isStoreFailure(reply: unknown): reply is StoreFailure {
  return (reply as StoreFailure | undefined)?.isStoreFailure === true;
}
