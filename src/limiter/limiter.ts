/** The base class of all limiters. */
import { checkCost, checkKey, type Mode } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { rejectDisposed } from "../core/errors.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { Consistency } from "../core/store.ts";
import { type ComposableLimiter, chargeTo, type JointCharge, type LimiterPart } from "./limiter-part.ts";

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
      return Promise.resolve(this.apply(this.charges(key, cost, "take")));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async peek(key: string, cost = 1): Promise<Decision> {
    return this.apply(this.charges(key, cost, "peek"));
  }

  async refund(key: string, cost: number, decision?: Decision): Promise<void> {
    await this.refundCharges(this.charges(key, cost, "refund"), decision);
  }

  async reset(key: string): Promise<void> {
    await Promise.all(this.charges(key, 0, "reset").map((charge) => charge.port.reset(charge)));
  }

  async inspect(key: string): Promise<Inspection> {
    const parts = await Promise.all(
      this.charges(key, 0, "peek").map(({ port, policy, failurePolicy }) =>
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

  /** Decides charges that all take or all peek. */
  protected abstract apply(charges: readonly JointCharge[]): MaybePromise<Decision>;

  protected abstract refundCharges(charges: readonly JointCharge[], decision: Decision | undefined): MaybePromise<void>;

  protected abstract summarize(parts: readonly Inspection[]): Inspection;

  protected check(key: string, cost: number): void {
    if (this.disposed) rejectDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }

  private charges(key: string, cost: number, mode: Mode): JointCharge[] {
    this.check(key, cost);
    return this.limiterParts.map((part) => chargeTo(part, key, cost, mode));
  }
}
