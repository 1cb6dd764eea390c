/** Limiters of one policy: the base class, and that of synchronous stores. */
import { isCost } from "./charge.ts";
import type { Decision, Inspection } from "./decision.ts";
import type { MaybePromise } from "./maybe-promise.ts";
import type { SyncRateLimiter } from "./rate-limiter.ts";
import type { PolicyBuckets, Store, SyncStore } from "./store.ts";
import { Limiter } from "./limiter.ts";
import type { JointCharge, LimiterPart } from "./limiter-part.ts";
import { hasRate, takeCharge } from "./part-charges.ts";
import { refundsOf } from "./refunds.ts";

/** One policy on any store. */
export class PolicyLimiter<S extends Store = Store> extends Limiter {
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
    await this.limiterParts[0]?.failurePolicy.onDispose?.();
    await this.release();
  }

  override consume(key: string, cost = 1): Promise<Decision> {
    // Not an async function, and without a list of charges: the common case allocates little.
    try {
      this.check(key, cost);
      const part = this.limiterParts[0] as LimiterPart;
      return Promise.resolve(part.port.applyOne(takeCharge(part, key, cost)));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  override apply(charges: readonly JointCharge[]): MaybePromise<Decision> {
    const charge = charges[0] as JointCharge;
    return charge.port.applyOne(charge);
  }

  protected override refundCharges(
    charges: readonly JointCharge[],
    decision: Decision | undefined,
  ): MaybePromise<void> {
    const refunds = refundsOf(charges, decision && [decision]);
    if (refunds.length > 0) return (charges[0] as JointCharge).port.refund(refunds, true);
  }

  protected override summarize(parts: readonly Inspection[]): Inspection {
    return parts[0] as Inspection;
  }
}

/** One policy on a synchronous store. */
export class SyncLimiter extends PolicyLimiter<SyncStore> implements SyncRateLimiter {
  private readonly buckets: PolicyBuckets;

  constructor(part: LimiterPart, release: () => Promise<void>) {
    super(part, release);
    this.buckets = hasRate(part.policy) ? this.store.open(part.policy) : bucketsWithoutRate(part);
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

/** What `consume` does on a policy without a rate: it checks a penalty, and rejects a concurrency limit. */
function bucketsWithoutRate(part: LimiterPart): PolicyBuckets {
  return { take: (key, cost) => part.port.applyOne(takeCharge(part, key, cost)) as Decision };
}
