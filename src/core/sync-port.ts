/** How limiters use a store, and the port of synchronous stores. */
import type { CompiledPolicy } from "./compiled-policy.ts";
import type { Decision, DecisionSource, Denied, Inspection } from "./decision.ts";
import type { MaybePromise } from "./maybe-promise.ts";
import type { Store, SyncStore } from "./store.ts";
import type { PartCharge } from "../remote/failure-policy.ts";
import type { StoreFailure } from "../remote/store-health.ts";

/** The decisions on a group, and why the store did not make them, if it did not. */
export interface PortReply {
  readonly decisions: Decision[];
  readonly failure?: StoreFailure | undefined;
}

/** A store as limiters use it. Times are monotonic milliseconds. */
export interface StorePort {
  readonly store: Store;
  /** The store, if its decisions are synchronous: for limiters that have `consumeSync`. */
  readonly syncStore: SyncStore | undefined;
  /** Applies one charge that can be denied. */
  applyOne(charge: PartCharge): MaybePromise<Decision>;
  /** Applies one group of charges that can be denied, all of one shard. Doesn't use the denial cache. */
  apply(charges: readonly PartCharge[], due: number): MaybePromise<PortReply>;
  /** Applies several groups in one call, each all or nothing and independent of the others. All of one shard. */
  applyGroups(groups: readonly (readonly PartCharge[])[], due: number): MaybePromise<PortReply[]>;
  /** Decides a group without the store, which failed before. */
  applyWithout(charges: readonly PartCharge[], failure: StoreFailure): Decision[];
  /** The cached denial of these charges, if there is one. `isJoint`: the decision has parts, however many charges there are. */
  cachedDenial(charges: readonly PartCharge[], now: number, isJoint: boolean): Denied | undefined;
  /** Caches the decision on these charges if it is a denial. */
  recordDecision(charges: readonly PartCharge[], decision: Decision, sentAt: number, isJoint: boolean): void;
  /**
   * Applies refunds, all of one shard. If the store fails, it throws if a limiter's `onStoreError` is `"throw"` and
   * `mayThrow` is set; otherwise it emits `refund-lost`.
   */
  refund(refunds: readonly PartCharge[], mayThrow: boolean): MaybePromise<void>;
  /** Sends a charge that may free budget. Returns the failure if the store fails. */
  send(charge: PartCharge): MaybePromise<Decision | StoreFailure>;
  /** Applies a charge to what was granted without the store. Only if it can fail. */
  applyElsewhere?(charge: PartCharge, source: DecisionSource): Decision;
  /** Resets a key. Rejects if the store fails, whatever the failure policy: the caller has to know. */
  reset(charge: PartCharge): Promise<void>;
  /** Returns what is stored for a key. Rejects if the store fails. */
  inspect(policy: CompiledPolicy, key: string, due: number): Promise<Inspection>;
}

/** A synchronous store can't fail and needs no cache. */
export class SyncPort implements StorePort {
  readonly store: SyncStore;
  readonly syncStore: SyncStore;

  constructor(store: SyncStore) {
    this.store = store;
    this.syncStore = store;
  }

  applyOne(charge: PartCharge): Decision {
    return this.store.applySync([charge])[0] as Decision;
  }

  apply(charges: readonly PartCharge[]): PortReply {
    return { decisions: this.store.applySync(charges) };
  }

  applyGroups(groups: readonly (readonly PartCharge[])[]): PortReply[] {
    return groups.map((group) => this.apply(group));
  }

  applyWithout(charges: readonly PartCharge[]): Decision[] {
    return this.store.applySync(charges);
  }

  cachedDenial(): undefined {
    return undefined;
  }

  recordDecision(): void {}

  refund(refunds: readonly PartCharge[]): void {
    this.store.applySync(refunds);
  }

  send(charge: PartCharge): Decision {
    return this.applyOne(charge);
  }

  async reset(charge: PartCharge): Promise<void> {
    this.store.applySync([charge]);
  }

  inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    return this.store.inspect(policy, key);
  }
}
