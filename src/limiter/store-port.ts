/**
 * The one way from limiters to a store. Every decision of every limiter is made by a port: by a synchronous store
 * directly, by any other with denial cache, deadline, circuit breaker and fallback.
 */
import { monotonicMs } from "../core/clock.ts";
import type { CompiledPolicy } from "../core/compile.ts";
import type { Decision, Denied, Inspection } from "../core/decision.ts";
import { SluiceError } from "../core/errors.ts";
import { recordUnknownGrant } from "../core/grant.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { isSync, type Store, type SyncStore } from "../core/store.ts";
import { emit, type OnEvent } from "../resilience/events.ts";
import type { PartCharge } from "../resilience/failure-policy.ts";
import { decideWithout } from "../resilience/fallback.ts";
import { healthOf, StoreFailure, type StoreHealth } from "../resilience/store-health.ts";
import { memoryOf, type StoreMemory } from "../resilience/store-memory.ts";
import { reportsOf } from "../resilience/store-reports.ts";

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
  /** Applies one charge that takes or peeks. */
  applyOne(charge: PartCharge): MaybePromise<Decision>;
  /** Applies one group of charges that take or peek, all of one shard. Doesn't use the denial cache. */
  apply(charges: readonly PartCharge[], due: number): MaybePromise<PortReply>;
  /** Decides a group without the store, which failed before. */
  applyWithout(charges: readonly PartCharge[], failure: StoreFailure): Decision[];
  /** The cached denial of these charges, if there is one. */
  cachedDenial(charges: readonly PartCharge[], now: number): Denied | undefined;
  /** Caches the decision on these charges if it is a denial. */
  recordDecision(charges: readonly PartCharge[], decision: Decision, sentAt: number): void;
  /** Refunds charges of one shard. */
  refund(charges: readonly PartCharge[], due: number): MaybePromise<StoreFailure | undefined>;
  /** Resets a key. Rejects if the store fails, whatever the failure policy: the caller has to know. */
  reset(charge: PartCharge): Promise<void>;
  /** Returns what is stored for a key. Rejects if the store fails. */
  inspect(policy: CompiledPolicy, key: string, due: number): Promise<Inspection>;
}

const ports = new WeakMap<Store, StorePort>();

/** The port of a store. */
export function portOf(store: Store): StorePort {
  let port = ports.get(store);
  if (!port) ports.set(store, (port = isSync(store) ? new SyncPort(store) : new RemotePort(store)));
  return port;
}

/** A synchronous store can't fail and needs no cache. */
class SyncPort implements StorePort {
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

  applyWithout(charges: readonly PartCharge[]): Decision[] {
    return this.store.applySync(charges);
  }

  cachedDenial(): undefined {
    return undefined;
  }

  recordDecision(): void {}

  refund(charges: readonly PartCharge[]): undefined {
    this.store.applySync(charges);
    return undefined;
  }

  async reset(charge: PartCharge): Promise<void> {
    this.store.applySync([charge]);
  }

  inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    return this.store.inspect(policy, key);
  }
}

/** A store that is called over the network, and can fail. */
class RemotePort implements StorePort {
  readonly store: Store;
  readonly syncStore = undefined;
  private readonly health: StoreHealth;
  private readonly memory: StoreMemory;

  constructor(store: Store) {
    this.store = store;
    this.health = healthOf(store);
    this.memory = memoryOf(store);
  }

  applyOne(charge: PartCharge): Promise<Decision> {
    const now = monotonicMs();
    const charges = [charge];
    const denial = charge.mode === "take" ? this.cachedDenial(charges, now) : undefined;
    return denial ? Promise.resolve(denial) : this.sendOne(charges, now);
  }

  async apply(charges: readonly PartCharge[], due: number): Promise<PortReply> {
    const { store } = this;
    const reply = await this.health.attempt(store, (charges[0] as PartCharge).key, due, (call) =>
      store.apply([charges], call),
    );
    for (const { failurePolicy, policy } of charges) emitStoreWarning(store, failurePolicy.onEvent, policy.name);
    if (reply instanceof StoreFailure) return { decisions: this.applyWithout(charges, reply), failure: reply };
    const [decisions] = reply;
    if (decisions?.length !== charges.length) throw missingDecision();
    for (const [i, { mode, cost }] of charges.entries()) {
      if (mode === "take") recordUnknownGrant(decisions[i] as Decision, cost);
    }
    return { decisions };
  }

  applyWithout(charges: readonly PartCharge[], failure: StoreFailure): Decision[] {
    return decideWithout(this.store, charges, failure, monotonicMs());
  }

  cachedDenial(charges: readonly PartCharge[], now: number): Denied | undefined {
    const forMs = cacheMs(charges);
    return forMs > 0 ? this.memory.cachedDenial(charges, now, forMs) : undefined;
  }

  recordDecision(charges: readonly PartCharge[], decision: Decision, sentAt: number): void {
    if (cacheMs(charges) > 0) this.memory.recordDecision(charges, decision, sentAt);
  }

  async refund(charges: readonly PartCharge[], due: number): Promise<StoreFailure | undefined> {
    const { store } = this;
    // Groups of one: refunding one grant of a long sliding log is as much as one call should do.
    const groups = charges.map((charge) => [charge]);
    const reply = await this.memory.invalidating(charges, () =>
      this.health.attempt(store, (charges[0] as PartCharge).key, due, (call) => store.apply(groups, call)),
    );
    return reply instanceof StoreFailure ? reply : undefined;
  }

  async reset(charge: PartCharge): Promise<void> {
    const { store, memory } = this;
    const { key, failurePolicy } = charge;
    if (memory.hasFallback) memory.fallback.applySync([{ ...charge, policy: failurePolicy.localPolicy }]);
    const due = monotonicMs() + failurePolicy.deadlineMs;
    const reply = await memory.invalidating([charge], () =>
      this.health.attempt(store, key, due, (call) => store.apply([[charge]], call)),
    );
    if (reply instanceof StoreFailure) throw reply.error;
  }

  async inspect(policy: CompiledPolicy, key: string, due: number): Promise<Inspection> {
    const reply = await this.health.attempt(this.store, key, due, () => this.store.inspect(policy, key));
    if (reply instanceof StoreFailure) throw reply.error;
    return reply;
  }

  private async sendOne(charges: readonly PartCharge[], sentAt: number): Promise<Decision> {
    const { mode, cost, failurePolicy } = charges[0] as PartCharge;
    const { decisions } = await this.apply(charges, sentAt + failurePolicy.deadlineMs);
    const decision = decisions[0] as Decision;
    if (mode === "take" && cost > 0) this.recordDecision(charges, decision, sentAt);
    return decision;
  }
}

/** How long a denial of these charges is cached, in ms. */
function cacheMs(charges: readonly PartCharge[]): number {
  let least = Number.POSITIVE_INFINITY;
  for (const { failurePolicy } of charges) least = Math.min(least, failurePolicy.localDenialMs);
  return least;
}

/** Emits the store's own warning, once per change. */
export function emitStoreWarning(store: Store, onEvent: OnEvent | undefined, policy: string): void {
  const message = onEvent && reportsOf(store).nextWarning(store);
  if (message !== undefined) emit(onEvent, { type: "warning", policy, message });
}

function missingDecision(): SluiceError {
  const message = "The store must return a decision for every charge. Check its apply() with storeSuite.";
  return new SluiceError("invalid-option", message, { option: "store", expected: "a decision for every charge" });
}
