/** Calls an idempotency store with a deadline and a circuit breaker, and wakes requests that wait for another. */
import { monotonicMs } from "../../base/clock.ts";
import { SluiceError } from "../../base/errors.ts";
import { shared } from "../../base/shared-state.ts";
import { type CallState, StoreFailure } from "../../core/store.ts";
import type {
  BeginResult,
  IdempotencyClaim,
  IdempotencyKey,
  IdempotencyStore,
  StoredResponse,
} from "../../idempotency/idempotency-store.ts";
import { ALL_SHARDS } from "../../remote/breaker.ts";
import { healthOf, type StoreHealth } from "../../remote/store-health.ts";
import { Waiters } from "./waiters.ts";

/** All middleware on one store share its waiting requests. */
const waitersByStore = /* @__PURE__ */ shared("idempotencyWaiters", () => new WeakMap<IdempotencyStore, Waiters>());

/** The calls of one middleware to its store. Failures are returned, and errors of the caller thrown. */
export class StoreCalls {
  readonly health: StoreHealth;
  private readonly store: IdempotencyStore;
  private readonly deadlineMs: number;
  private readonly waiters: Waiters;
  /** Where the objects of a store fail independently, each has a circuit of its own. */
  private readonly shards: { readonly failsPerShard?: boolean; shardOf(scope: string): string };

  constructor(store: IdempotencyStore, deadlineMs: number) {
    this.store = store;
    this.deadlineMs = deadlineMs;
    this.health = healthOf(store as object);
    this.shards = { failsPerShard: store.failsPerScope ?? false, shardOf: (scope) => scope };
    let waiters = waitersByStore.get(store);
    if (!waiters) waitersByStore.set(store, (waiters = new Waiters()));
    this.waiters = waiters;
  }

  /** Claims a key, or reports its state. */
  begin(claim: IdempotencyClaim): Promise<BeginResult | StoreFailure> {
    return this.attempt(claim.scope, async (call) => {
      const begun = await this.store.begin(claim);
      // Too late: the request was rejected, so the key must not stay claimed.
      if (call.abandoned && begun.state === "started") this.store.release(claim, claim.owner).catch(() => {});
      return begun;
    });
  }

  /** Waits for a request in progress, and claims the key or reports its state. `undefined`: the wait is over. */
  beginLater(
    claim: IdempotencyClaim,
    ms: number,
    signal: AbortSignal | undefined,
  ): Promise<BeginResult | StoreFailure | undefined> {
    return this.waiters.wait(this, claim, ms, signal);
  }

  /** Reads the response of a key; `undefined` if it is not there any more. */
  read(key: IdempotencyKey, fingerprint: string): Promise<StoredResponse | undefined | StoreFailure> {
    return this.attempt(key.scope, () => this.store.read(key, fingerprint));
  }

  /** Stores a response. `false`: the lease is lost. */
  async complete(
    key: IdempotencyKey,
    owner: string,
    response: StoredResponse,
    ttlMs: number,
  ): Promise<boolean | StoreFailure> {
    const call = () => this.store.complete(key, owner, response, ttlMs);
    const stored = await this.attempt(key.scope, call);
    this.waiters.wake(key);
    return stored;
  }

  /** Extends a lease. `false`: it is lost. Rejects if the store fails. */
  renew(key: IdempotencyKey, owner: string, leaseMs: number): Promise<boolean> {
    return this.store.renew(key, owner, leaseMs);
  }

  /** Releases a claim. If that fails, its lease ends later. */
  async release(key: IdempotencyKey, owner: string): Promise<void> {
    await this.attempt(key.scope, () => this.store.release(key, owner));
    this.waiters.wake(key);
  }

  /** Seconds until the store is tried again. */
  retryAfterS({ shard }: StoreFailure): number {
    return Math.ceil(this.health.breaker.retryAfterMs(shard, monotonicMs()) / 1000);
  }

  private async attempt<T>(scope: string, call: (state: CallState) => Promise<T>): Promise<T | StoreFailure> {
    const due = monotonicMs() + this.deadlineMs;
    if (!this.store.isLocal) return this.health.attempt(this.shards, scope, due, call, (reply) => reply);
    try {
      return await call({ abandoned: false });
    } catch (error) {
      if (!(error instanceof SluiceError) || error.isCallerError) throw error;
      return new StoreFailure(error, ALL_SHARDS);
    }
  }
}
