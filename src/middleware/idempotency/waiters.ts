/**
 * Requests that wait for another one with their key. All that wait for one key in this process share one poll of the store,
 * so the number of retries does not multiply its load.
 */

import { isStoreFailure, type StoreFailure } from "../../core/store.ts";
import type { BeginResult, IdempotencyClaim, IdempotencyKey } from "../../idempotency/idempotency-store.ts";
import { joinKey } from "../../idempotency/join-key.ts";
import { hasTimersPerRequest } from "../../remote/deadlines.ts";

/** Requests of one scope that wait at once. Further ones get a 409 at once. */
const MAX_WAITERS_PER_SCOPE = 100;
/** Pauses between two polls, in ms. A request that ends in this process ends the pause. */
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 250;

type Begun = BeginResult | StoreFailure;

/** The calls that a poll makes. */
export interface PolledStore {
  begin(claim: IdempotencyClaim): Promise<Begun>;
  release(key: IdempotencyKey, owner: string): Promise<void>;
}

/** The waiting requests on one store. */
export class Waiters {
  private readonly polls: Map<string, KeyPoll> = new Map();
  private readonly counts: Map<string, number> = new Map();

  /**
   * Waits until the request in progress has ended, but at most `ms`, and not for a client that is gone. Returns what `begin`
   * reports then; `undefined` if the wait is over, or if too many requests of the scope wait.
   */
  async wait(
    store: PolledStore,
    claim: IdempotencyClaim,
    ms: number,
    signal: AbortSignal | undefined,
  ): Promise<Begun | undefined> {
    const { scope } = claim;
    const count = this.counts.get(scope) ?? 0;
    if (count >= MAX_WAITERS_PER_SCOPE || signal?.aborted) return undefined;
    this.counts.set(scope, count + 1);
    try {
      return await this.pollFor(store, claim)?.join(claim, ms, signal);
    } finally {
      const left = (this.counts.get(scope) as number) - 1;
      if (left > 0) this.counts.set(scope, left);
      else this.counts.delete(scope);
    }
  }

  /** Ends the pause of requests that wait for this key. */
  wake(key: IdempotencyKey): void {
    // A map lookup only if there is something to find: most requests have no retries.
    if (this.polls.size > 0) this.polls.get(joinKey(key))?.pollNow();
  }

  /** The poll of a key. `undefined`: others wait for another payload with the same key. */
  private pollFor(store: PolledStore, claim: IdempotencyClaim): KeyPoll | undefined {
    // On Workers a request can't resume another, so each polls for itself.
    if (hasTimersPerRequest) return new KeyPoll(store, claim.fingerprint, () => {});
    const name = joinKey(claim);
    let poll = this.polls.get(name);
    if (poll) return poll.fingerprint === claim.fingerprint ? poll : undefined;
    poll = new KeyPoll(store, claim.fingerprint, () => void this.polls.delete(name));
    this.polls.set(name, poll);
    return poll;
  }
}

interface Waiter {
  readonly claim: IdempotencyClaim;
  readonly leave: (begun?: Begun) => void;
}

/** One poll of one key, for all that wait for it. */
class KeyPoll {
  readonly fingerprint: string;
  private readonly store: PolledStore;
  private readonly onEmpty: () => void;
  /** In the order of arrival. The first one claims the key if it becomes free. */
  private readonly waiters: Set<Waiter> = new Set();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pauseMs = FIRST_PAUSE_MS;
  private isPolling = false;
  /** Whether to poll again at once: a request ended while the last poll was in flight. */
  private isStale = false;

  constructor(store: PolledStore, fingerprint: string, onEmpty: () => void) {
    this.store = store;
    this.fingerprint = fingerprint;
    this.onEmpty = onEmpty;
  }

  join(claim: IdempotencyClaim, ms: number, signal: AbortSignal | undefined): Promise<Begun | undefined> {
    return new Promise((resolve) => {
      const leave = (begun?: Begun): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        this.waiters.delete(waiter);
        if (this.waiters.size === 0) {
          clearTimeout(this.timer);
          this.onEmpty();
        }
        resolve(begun);
      };
      const abort = (): void => leave();
      const waiter: Waiter = { claim, leave };
      const timer = setTimeout(abort, ms);
      signal?.addEventListener("abort", abort);
      this.waiters.add(waiter);
      if (this.waiters.size === 1 && !this.isPolling) this.schedule();
    });
  }

  pollNow(): void {
    this.pauseMs = FIRST_PAUSE_MS;
    this.isStale = true;
    if (!this.isPolling) void this.poll();
  }

  private leaveAll(begun: Begun | undefined): void {
    for (const { leave } of [...this.waiters]) leave(begun);
  }

  private schedule(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.poll(), this.pauseMs);
    this.pauseMs = Math.min(2 * this.pauseMs, MAX_PAUSE_MS);
  }

  private async poll(): Promise<void> {
    clearTimeout(this.timer);
    const [first] = this.waiters;
    if (!first) return;
    this.isPolling = true;
    this.isStale = false;
    // A store that rejects the claim has rejected it before: the wait is over.
    const begun = await this.store.begin(first.claim).catch(() => undefined);
    if (begun === undefined || isStoreFailure(begun) || begun.state === "completed") {
      this.leaveAll(begun);
    } else if (begun.state === "started") {
      // Its client may have left meanwhile, and no other request may run under its claim.
      if (this.waiters.has(first)) first.leave(begun);
      else await this.store.release(first.claim, first.claim.owner).catch(() => {});
    } else if (!begun.same) {
      this.leaveAll(begun);
    }
    // Only now: a second poll with the same claim would take it for its own, and release it while its request runs.
    this.isPolling = false;
    if (this.waiters.size === 0) return;
    if (this.isStale) void this.poll();
    else this.schedule();
  }
}
