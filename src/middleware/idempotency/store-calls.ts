/** Calls an idempotency store with a deadline and a circuit breaker, and wakes requests that wait for another. */
import { monotonicMs } from "../../core/clock.ts";
import { shared } from "../../core/shared-state.ts";
import type {
  BeginResult,
  IdempotencyClaim,
  IdempotencyKey,
  IdempotencyStore,
  StoredResponse,
} from "../../idempotency/idempotency-store.ts";
import { joinKey } from "../../idempotency/join-key.ts";
import { hasTimersPerRequest } from "../../resilience/deadlines.ts";
import { healthOf, type StoreFailure, type StoreHealth } from "../../resilience/store-health.ts";

/** The functions to call when a request of this process has ended, by scope and key. */
type Waiting = Map<string, Set<() => void>>;

/** All middleware on one store share its waiting requests. */
const waitingByStore = /* @__PURE__ */ shared("idempotencyWaiting", () => new WeakMap<IdempotencyStore, Waiting>());

/** The calls of one middleware to its store. Failures are returned, and errors of the caller thrown. */
export class StoreCalls {
  readonly health: StoreHealth;
  private readonly store: IdempotencyStore;
  private readonly deadlineMs: number;
  private readonly waiting: Waiting;
  /** Where the objects of a store fail independently, each has a circuit of its own. */
  private readonly shards: { readonly failsPerShard?: boolean; shardOf(scope: string): string };

  constructor(store: IdempotencyStore, deadlineMs: number) {
    this.store = store;
    this.deadlineMs = deadlineMs;
    this.health = healthOf(store as object);
    this.shards = { failsPerShard: store.failsPerScope ?? false, shardOf: (scope) => scope };
    let waiting = waitingByStore.get(store);
    if (!waiting) waitingByStore.set(store, (waiting = new Map()));
    this.waiting = waiting;
  }

  /** Claims a key, or reports its state. */
  begin(claim: IdempotencyClaim): Promise<BeginResult | StoreFailure> {
    return this.health.attempt(this.shards, claim.scope, this.due(), async (call) => {
      const begun = await this.store.begin(claim);
      // Too late: the request was rejected, so the key must not stay claimed.
      if (call.abandoned && begun.state === "started") this.store.release(claim, claim.owner).catch(() => {});
      return begun;
    });
  }

  /** Stores a response. `false`: the lease is lost. */
  async complete(
    key: IdempotencyKey,
    owner: string,
    response: StoredResponse,
    ttlMs: number,
  ): Promise<boolean | StoreFailure> {
    const call = () => this.store.complete(key, owner, response, ttlMs);
    const stored = await this.health.attempt(this.shards, key.scope, this.due(), call);
    this.wake(key);
    return stored;
  }

  /** Extends a lease. `false`: it is lost. Rejects if the store fails. */
  renew(key: IdempotencyKey, owner: string, leaseMs: number): Promise<boolean> {
    return this.store.renew(key, owner, leaseMs);
  }

  /** Releases a claim. If that fails, its lease ends later. */
  async release(key: IdempotencyKey, owner: string): Promise<void> {
    await this.health.attempt(this.shards, key.scope, this.due(), () => this.store.release(key, owner));
    this.wake(key);
  }

  /** Seconds until the store is tried again. */
  retryAfterS({ shard }: StoreFailure): number {
    return Math.ceil(this.health.breaker.retryAfterMs(shard, monotonicMs()) / 1000);
  }

  /** Waits until a request with the key has ended in this process, but at most `ms`, and not for a client that is gone. */
  ended(key: IdempotencyKey, ms: number, signal: AbortSignal | undefined): Promise<void> {
    const name = joinKey(key);
    return new Promise((resolve) => {
      const set = this.waiting.get(name) ?? new Set();
      this.waiting.set(name, set);
      const end = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        set.delete(end);
        if (set.size === 0 && this.waiting.get(name) === set) this.waiting.delete(name);
        resolve();
      };
      const timer = setTimeout(end, ms);
      set.add(end);
      if (signal?.aborted) end();
      else signal?.addEventListener("abort", end);
    });
  }

  /** Ends the pauses of requests that wait for this one. Not on Workers, where a request can't resume another. */
  private wake(key: IdempotencyKey): void {
    if (hasTimersPerRequest) return;
    const set = this.waiting.get(joinKey(key));
    if (set) for (const end of [...set]) end();
  }

  private due(): number {
    return monotonicMs() + this.deadlineMs;
  }
}
