/** The base class of all limiters. */
import { checkCost, checkKey } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { rejectDisposed, SluiceError } from "../core/errors.ts";
import {
  checkHoldId,
  type HoldDecision,
  type HoldOptions,
  MAX_HOLD_MS,
  parseHoldOptions,
  type Settlement,
} from "../core/hold.ts";
import { isPromise, type MaybePromise } from "../core/maybe-promise.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { Consistency } from "../core/store.ts";
import { checkActual, checkAmount, settleAll, settlementOf, withHold } from "./hold.ts";
import { type ComposableLimiter, chargeTo, type JointCharge, type LimiterPart } from "./limiter-part.ts";
import { hasRate, holdCharge, isConcurrency, leaseOf, peekCharge, takeCharge } from "./part-charges.ts";

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

  hold(key: string, amount = 1, options: HoldOptions = {}): Promise<HoldDecision> {
    try {
      return Promise.resolve(this.holdParts(key, amount, options));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async settle(key: string, id: string, actual: number): Promise<Settlement> {
    this.check(key, 0);
    checkHoldId(id);
    checkActual(actual);
    const held = this.parts().filter(({ policy }) => !policy.block);
    // The end of the hold is not known here.
    const endsAt = monotonicMs() + MAX_HOLD_MS;
    const settlements = held.map((part) => {
      const charge = settlementOf(chargeTo(part, key, 0, "settle"), id, actual);
      return { charge, endsAt };
    });
    if (settlements.length === 0) {
      const message = "A penalty has no holds to settle. Use unblock() to end a block.";
      throw new SluiceError("unsupported", message, { option: "settle", expected: "a limiter with a rate" });
    }
    return settleAll(settlements);
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

  /** Decides charges that can be denied. */
  protected abstract apply(charges: readonly JointCharge[]): MaybePromise<Decision>;

  protected abstract refundCharges(charges: readonly JointCharge[], decision: Decision | undefined): MaybePromise<void>;

  protected abstract summarize(parts: readonly Inspection[]): Inspection;

  protected check(key: string, cost: number): void {
    if (this.disposed) rejectDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }

  /** Holds an amount in every part; without a promise if every store is synchronous. */
  protected holdParts(key: string, amount: number, options: HoldOptions): MaybePromise<HoldDecision> {
    this.check(key, 0);
    checkAmount(amount);
    // Of an observed limiter, the parts that count what is settled.
    const parts = this.parts();
    const hold = parseHoldOptions(options, leaseOf(parts));
    const isNew = options.id === undefined;
    const isAlone = parts.length === 1;
    const charges = parts.map((part) =>
      // A combination counts its holds: weights of a concurrency limit are for holdAll.
      holdCharge(part, key, isAlone || !isConcurrency(part.policy) ? amount : 1, hold, isNew),
    );
    if (charges.every(({ mode }) => mode !== "hold")) {
      const message =
        "A penalty alone has nothing to hold. Combine it with a limiter that has a rate or a concurrency limit.";
      throw new SluiceError("unsupported", message, { option: "hold", expected: "a limiter with a rate" });
    }
    const sentAt = monotonicMs();
    const request = { ...hold, charges };
    const decided = this.apply(charges);
    return isPromise(decided)
      ? decided.then((decision) => withHold(decision, request, sentAt))
      : withHold(decided, request, sentAt);
  }
}
