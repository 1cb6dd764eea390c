/** Limiters of one policy. */
import { isCost } from "../core/charge.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import type { SyncRateLimiter } from "../core/rate-limiter.ts";
import type { PolicyBuckets, Store, SyncStore } from "../core/store.ts";
import type { Watcher } from "../resilience/breaker.ts";
import { emit } from "../resilience/events.ts";
import { healthOf } from "../resilience/store-health.ts";
import { Limiter } from "./limiter.ts";
import type { JointCharge, LimiterPart } from "./limiter-part.ts";
import { emitStoreWarning } from "./store-port.ts";

/** One policy on any store. */
class PolicyLimiter<S extends Store = Store> extends Limiter {
  readonly store: S;
  private readonly release: () => Promise<void>;

  /** `release` is called once, on `dispose`. */
  constructor(part: LimiterPart, release: () => Promise<void>) {
    super([part]);
    this.store = part.port.store as S;
    this.release = release;
  }

  override async dispose(): Promise<void> {
    if (this.disposed) return;
    this.disposed = true;
    await this.release();
  }

  protected override apply(charges: readonly JointCharge[]): MaybePromise<Decision> {
    const charge = charges[0] as JointCharge;
    return charge.port.applyOne(charge);
  }

  protected override partDecisions(decision: Decision): readonly Decision[] {
    return [decision];
  }

  protected override summarize(parts: readonly Inspection[]): Inspection {
    return parts[0] as Inspection;
  }
}

/** One policy on a store that is called over the network. Emits the store's failures and recoveries. */
export class RemoteLimiter extends PolicyLimiter {
  private readonly watcher: Watcher;

  constructor(part: LimiterPart, release: () => Promise<void>) {
    super(part, release);
    const { onEvent } = part.failurePolicy;
    const { name } = part.policy;
    this.watcher = {
      down: (error) => emit(onEvent, { type: "store-down", policy: name, error }),
      up: (downMs) => emit(onEvent, { type: "store-up", policy: name, downMs }),
    };
    if (onEvent) healthOf(this.store).watch(this.watcher);
    emitStoreWarning(this.store, onEvent, name);
  }

  override async dispose(): Promise<void> {
    healthOf(this.store).unwatch(this.watcher);
    await super.dispose();
  }
}

/** One policy on a synchronous store. */
export class SyncLimiter extends PolicyLimiter<SyncStore> implements SyncRateLimiter {
  private readonly buckets: PolicyBuckets;

  constructor(part: LimiterPart, release: () => Promise<void>) {
    super(part, release);
    this.buckets = this.store.open(part.policy);
  }

  consumeSync(key: string, cost = 1): Decision {
    // A short form of check(), which then throws the right error.
    if (this.disposed || typeof key !== "string" || key === "" || !isCost(cost)) this.check(key, cost);
    return this.buckets.take(key, cost);
  }

  override consume(key: string, cost = 1): Promise<Decision> {
    try {
      return Promise.resolve(this.consumeSync(key, cost));
    } catch (error) {
      return Promise.reject(error);
    }
  }
}
