/** Calls a store that can fail: with a deadline, and only while its circuit is closed. */
import { monotonicMs } from "../base/clock.ts";
import { SluiceError } from "../base/errors.ts";
import { shared } from "../base/shared-state.ts";
import type { StoreObserver } from "../core/observer.ts";
import { type CallState, originOf, type Store, StoreFailure } from "../core/store.ts";
import { ALL_SHARDS, Breaker, type Shard, type Watcher } from "./breaker.ts";
import { Deadlines, type SharedError, type Timed } from "./deadlines.ts";

/** Limiters whose `onEvent` is called. */
const MAX_WATCHERS = 256;

/** One per backing service: all limiters on it fail and recover together. */
export class StoreHealth {
  readonly breaker: Breaker = new Breaker();
  private readonly deadlines: Deadlines = new Deadlines();
  /** Whether the store has ever replied. */
  hasReplied = false;
  /** Called with every reply and failure, unlike watchers, which are called when the store's state changes. */
  private observers: readonly StoreObserver[] | undefined;

  /**
   * Calls the store about a key, waits until `due` at most, and returns what `finish` makes of the reply. `finish` runs in
   * the tick of the reply, so it costs no promise. Rejects with caller errors, and those that `finish` throws.
   */
  attempt<T, R>(
    store: Pick<Store, "failsPerShard" | "shardOf">,
    key: string,
    due: number,
    call: (state: CallState) => Promise<T>,
    finish: (reply: T | StoreFailure) => R,
  ): Promise<R> {
    const shard = shardOf(store, key);
    const now = monotonicMs();
    const rejection = this.breaker.rejection(shard, now);
    return new Promise((resolve, reject) => {
      if (rejection) {
        if (this.observers) for (const observer of this.observers) observer.failed(rejection, true);
        // What it throws rejects the promise.
        resolve(finish(new StoreFailure(rejection, shard, false)));
        return;
      }
      const pending = new PendingCall<T, R>(this, shard, { startedAt: now, due, finish, resolve, reject });
      this.deadlines.add(pending);
      try {
        Promise.resolve(call(pending)).then(
          (reply) => pending.succeed(reply),
          (error) => pending.fail(error),
        );
      } catch (error) {
        pending.fail(error);
      }
    });
  }

  watch(watcher: Watcher): void {
    // Limiters that are created per request are never disposed of; the first ones are those that last.
    if (this.breaker.watchers.size < MAX_WATCHERS) this.breaker.watchers.add(watcher);
  }

  unwatch(watcher: Watcher): void {
    this.breaker.watchers.delete(watcher);
  }

  /** Adds an observer, once. It is never removed: observers are few, and last as long as the process. */
  observe(observer: StoreObserver): void {
    const { observers = [] } = this;
    if (observers.includes(observer)) return;
    this.observers = [...observers, observer];
    // Not a watcher, which would replace the process warning.
    this.breaker.observers.add(observer);
  }

  /** Records a reply, which proves that the store is available. */
  succeeded(call: Timed, shard: Shard, startedAt: number): void {
    this.deadlines.remove(call);
    this.hasReplied = true;
    const now = monotonicMs();
    this.breaker.succeeded(shard, now);
    if (this.observers) for (const observer of this.observers) observer.replied(now - startedAt);
  }

  failed(call: Timed, shard: Shard, error: SluiceError, isProbe: boolean): StoreFailure {
    this.deadlines.remove(call);
    this.breaker.failed(shard, monotonicMs(), error, isProbe);
    if (this.observers) for (const observer of this.observers) observer.failed(error, false);
    return new StoreFailure(error, shard);
  }

  /** Records a reply that is an error about one key. */
  repliedWithError(call: Timed, shard: Shard, startedAt: number, error: SluiceError): StoreFailure {
    this.succeeded(call, shard, startedAt);
    if (this.observers) for (const observer of this.observers) observer.failed(error, false);
    return new StoreFailure(error, shard);
  }

  /** Forgets a call that says nothing about the store. */
  dropped(call: Timed): void {
    this.deadlines.remove(call);
  }
}

const healths = /* @__PURE__ */ shared("healths", () => new WeakMap<object, StoreHealth>());

/** The health of a store. Stores with the same origin share it. */
export function healthOf(store: Pick<Store, "origin">): StoreHealth {
  const origin = originOf(store);
  let health = healths.get(origin);
  if (!health) healths.set(origin, (health = new StoreHealth()));
  return health;
}

/** What a call in flight is, and what ends it. */
interface Pending<T, R> {
  readonly startedAt: number;
  readonly due: number;
  readonly finish: (reply: T | StoreFailure) => R;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/** A call in flight. It ends once: by the reply, an error or the deadline. */
class PendingCall<T, R> implements Timed, CallState {
  readonly due: number;
  abandoned = false;
  place = 0;
  private readonly health: StoreHealth;
  private readonly shard: Shard;
  private readonly isProbe: boolean;
  private readonly call: Pending<T, R>;

  constructor(health: StoreHealth, shard: Shard, call: Pending<T, R>) {
    this.health = health;
    this.shard = shard;
    this.due = call.due;
    this.isProbe = health.breaker.isOpen(shard);
    this.call = call;
  }

  succeed(reply: T): void {
    if (this.abandoned) return;
    this.abandoned = true;
    this.health.succeeded(this, this.shard, this.call.startedAt);
    this.end(reply);
  }

  private end(reply: T | StoreFailure): void {
    const { finish, resolve, reject } = this.call;
    try {
      resolve(finish(reply));
    } catch (error) {
      reject(error);
    }
  }

  fail(error: unknown): void {
    if (this.abandoned) return;
    this.abandoned = true;
    if (!(error instanceof SluiceError) || error.code === "store-unavailable") {
      this.end(this.health.failed(this, this.shard, unavailable(error), this.isProbe));
    } else if (error.isCallerError) {
      this.health.dropped(this);
      this.call.reject(error);
    } else {
      this.end(this.health.repliedWithError(this, this.shard, this.call.startedAt, error));
    }
  }

  expire(shared: SharedError): void {
    if (this.abandoned) return;
    // While the circuit is closed the breaker counts distinct errors. Once it is open, calls share one: creating stack
    // traces is most of the cost of an expired call.
    if (!this.health.breaker.isOpen(this.shard)) this.fail(deadlineExceeded());
    else this.fail((shared.error ??= deadlineExceeded()));
  }
}

/** The shard of a key, where shards fail independently. */
function shardOf(store: Pick<Store, "failsPerShard" | "shardOf">, key: string): Shard {
  try {
    return store.failsPerShard ? (store.shardOf?.(key) ?? ALL_SHARDS) : ALL_SHARDS;
  } catch {
    // A user's function that throws. The store's own call rejects with it.
    return ALL_SHARDS;
  }
}

function deadlineExceeded(): SluiceError {
  const details = { option: "store", expected: "a reply within deadlineMs" };
  return new SluiceError("store-unavailable", "The store did not reply within deadlineMs.", details);
}

function unavailable(cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  // The client's message may contain keys, and frameworks send messages to clients: it is in the cause.
  const details = { option: "store", expected: "a reply", cause };
  return new SluiceError("store-unavailable", "The store failed; see the cause of this error.", details);
}
