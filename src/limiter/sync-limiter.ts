/** A limiter whose store answers in the same turn. It can't fail, so that there is nothing to guard. */
import { isCost } from "../core/charge.ts";
import type { CompiledPolicy } from "../core/compile.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { refundOf } from "../core/grant.ts";
import type { SyncRateLimiter } from "../core/rate-limiter.ts";
import type { PolicyBuckets, SyncStore } from "../core/store.ts";
import type { FailurePolicy } from "../resilience/failure-policy.ts";
import { Limiter } from "./limiter.ts";

/** One policy on a synchronous store. */
export class SyncLimiter extends Limiter<SyncStore> implements SyncRateLimiter {
  private readonly buckets: PolicyBuckets;

  constructor(store: SyncStore, policy: CompiledPolicy, failurePolicy: FailurePolicy, release: () => Promise<void>) {
    super(store, policy, failurePolicy, release);
    this.buckets = store.open(policy);
  }

  consumeSync(key: string, cost = 1): Decision {
    // The short form of `check`, which then says what is wrong.
    if (this.disposed || typeof key !== "string" || key === "" || !isCost(cost)) this.check(key, cost);
    return this.buckets.take(key, cost);
  }

  override consume(key: string, cost = 1): Promise<Decision> {
    // Not an async function: that would cost as much again as the decision.
    try {
      return Promise.resolve(this.consumeSync(key, cost));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  override async peek(key: string, cost = 1): Promise<Decision> {
    this.check(key, cost);
    return this.store.applySync([{ policy: this.policy, key, cost, mode: "peek" }])[0] as Decision;
  }

  override async refund(key: string, cost: number, decision?: Decision): Promise<void> {
    this.check(key, cost);
    const refund = refundOf(decision, cost);
    if (!refund) return;
    this.store.applySync([{ policy: this.policy, key, cost: refund.cost, mode: "refund", grantEndsAt: refund.endsAt }]);
  }

  override async reset(key: string): Promise<void> {
    this.check(key, 0);
    await this.store.reset(this.policy, key);
  }

  override async inspect(key: string): Promise<Inspection> {
    this.check(key, 0);
    return this.store.inspect(this.policy, key);
  }
}
