/** The base class of all limiters. */
import { checkCost, checkKey } from "./charge.ts";
import { monotonicMs } from "./clock.ts";
import type { Decision, Inspection } from "./decision.ts";
import { rejectDisposed } from "./errors.ts";
import type { MaybePromise } from "./maybe-promise.ts";
import type { ResolvedPolicy } from "./policy.ts";
import type { Consistency } from "./store.ts";
import { type ComposableLimiter, chargeTo, type JointCharge, type LimiterPart } from "./limiter-part.ts";
import { hasRate, peekCharge, takeCharge } from "./part-charges.ts";

/** A limiter over one or more parts. */
export abstract class Limiter implements ComposableLimiter {
  readonly consistency: Consistency;
  protected readonly limiterParts: readonly LimiterPart[];
  protected disposed = false;
  private readonly smallest: ResolvedPolicy;

  constructor(parts: readonly LimiterPart[]) {
    this.limiterParts = parts;
    this.consistency = parts.every(({ port }) => port.store.consistency === "exact") ? "exact" : "approximate";
    const policies = parts.map(({ policy }) => policy.resolved);
    this.smallest = policies.reduce((least, policy) => (policy.capacity < least.capacity ? policy : least));
  }

  consume(key: string, cost = 1): Promise<Decision> {
    // Not an async function: that would cost as much again as a synchronous decision.
    try {
      this.check(key, cost);
      return Promise.resolve(this.apply(this.limiterParts.map((part) => takeCharge(part, key, cost))));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async peek(key: string, cost = 1): Promise<Decision> {
    this.check(key, cost);
    return this.apply(this.limiterParts.map((part) => peekCharge(part, key, cost)));
  }

  async refund(key: string, cost: number, decision?: Decision): Promise<void> {
    this.check(key, cost);
    // consume() takes nothing from a part without a rate. The strikes of a penalty are refunded only by its own limiter.
    const isOwnPenalty = this.limiterParts.length === 1 && decision === undefined;
    const refunds = this.limiterParts.map((part) =>
      chargeTo(part, key, hasRate(part.policy) || isOwnPenalty ? cost : 0, "refund"),
    );
    await this.refundCharges(refunds, decision);
  }

  async reset(key: string): Promise<void> {
    this.check(key, 0);
    await Promise.all(this.limiterParts.map((part) => part.port.reset(chargeTo(part, key, 0, "reset"))));
  }

  async inspect(key: string): Promise<Inspection> {
    this.check(key, 0);
    const parts = await Promise.all(
      this.limiterParts.map(({ port, policy, failurePolicy }) =>
        port.inspect(policy, key, monotonicMs() + failurePolicy.deadlineMs),
      ),
    );
    return this.summarize(parts);
  }

  getPolicy(): ResolvedPolicy {
    return this.smallest;
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  parts(): readonly LimiterPart[] {
    if (this.disposed) rejectDisposed("limiter");
    return this.limiterParts;
  }

  /** Decides charges to its parts that can be denied. Not a part of the public contract. */
  abstract apply(charges: readonly JointCharge[]): MaybePromise<Decision>;

  protected abstract refundCharges(charges: readonly JointCharge[], decision: Decision | undefined): MaybePromise<void>;

  protected abstract summarize(parts: readonly Inspection[]): Inspection;

  protected check(key: string, cost: number): void {
    if (this.disposed) rejectDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }
}
