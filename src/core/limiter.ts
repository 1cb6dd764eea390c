/** Limiters: a policy on a store, or several policies that are charged together. */

import { monotonicMs } from "../base/clock.ts";
import { rejectDisposed } from "../base/errors.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import {
  type Act,
  DEMAND,
  type LimiterContext,
  type Part,
  type PartCharge,
  type PartGroup,
  PEEK,
  REFUND,
  TAKE,
} from "./apply.ts";
import { checkCost, checkKey, isCost } from "./charge.ts";
import type { CompiledPolicy } from "./compiled-policy.ts";
import type { Decision, Inspection } from "./decision.ts";
import { type ComposableLimiter, chargeTo, hasRate, peekCharge, takeCharge } from "./part-charges.ts";
import type { ResolvedPolicy } from "./policy.ts";
import type { SyncRateLimiter } from "./rate-limiter.ts";
import { applyRefunds, refundsOf } from "./refunds.ts";
import type { Consistency, PolicyBuckets, Store, SyncStore } from "./store.ts";

/** How a limiter charges its parts: alone, or jointly. The only difference between a limiter and a combination. */
export interface Charging {
  /** Whether there are several parts, which all decide. */
  readonly isJoint: boolean;
  /** Decides charges to the parts. */
  decide(charges: PartGroup, act: Act): MaybePromise<Decision>;
  /** Refunds charges; with the decision on them, no more than is still in use of it. */
  refund(charges: PartGroup, decision: Decision | undefined): MaybePromise<unknown>;
  /** One inspection of all parts. */
  summarize(parts: readonly Inspection[]): Inspection;
  /** The buckets that `consumeSync` takes from. Every store is synchronous. */
  open(parts: readonly Part[]): PolicyBuckets;
}

/** Charges the only part. */
export const alone: Charging = {
  isJoint: false,
  decide: (charges, act) =>
    andThen((charges[0] as PartCharge).engine.apply([charges], act), ([decisions]) => decisions?.[0] as Decision),
  refund: (charges, decision) => applyRefunds(refundsOf(charges, decision && [decision]), REFUND),
  summarize: ([part]) => part as Inspection,
  open([part]) {
    const { policy, engine, observed } = part as Part;
    if (hasRate(policy)) {
      const buckets = (engine.syncStore as SyncStore).open(policy);
      return observed ? observed.port.observeTakes(part as Part, buckets) : buckets;
    }
    // Checks a penalty, and rejects a concurrency limit.
    return { take: (key, cost) => alone.decide([takeCharge(part as Part, key, cost)], TAKE) as Decision };
  },
};

/** Whether a limiter was disposed of. A limiter and its observed copies share it. */
interface Life {
  ended: boolean;
}

/** A limiter over one or more parts. */
export class Limiter implements ComposableLimiter {
  readonly consistency: Consistency;
  /** The store of the first part. */
  readonly store: Store;
  /** Of a combination: returns every policy. */
  getPolicies?: () => readonly ResolvedPolicy[];
  /** What it was created with, for a copy with other counters. Not a part of the public contract. */
  readonly charging: Charging;
  readonly release: (() => Promise<void>) | undefined;
  readonly life: Life;
  protected readonly ownParts: readonly Part[];
  private readonly smallest: ResolvedPolicy;

  /** `release` is called once, on `dispose`; absent if the parts belong to others. */
  constructor(
    parts: readonly Part[],
    charging: Charging = alone,
    release?: () => Promise<void>,
    life: Life = { ended: false },
  ) {
    this.ownParts = parts;
    this.charging = charging;
    this.release = release;
    this.life = life;
    this.store = (parts[0] as Part).engine.store;
    this.consistency = parts.every(({ engine }) => engine.store.consistency === "exact") ? "exact" : "approximate";
    const policies = Object.freeze(parts.map(({ policy }) => policy.resolved));
    this.smallest = policies.reduce((least, policy) => (policy.capacity < least.capacity ? policy : least));
    if (charging.isJoint) this.getPolicies = () => policies;
  }

  consume(key: string, cost = 1): Promise<Decision> {
    // Not an async function: that would cost as much again as a synchronous decision.
    try {
      this.check(key, cost);
      return Promise.resolve(
        this.charging.decide(
          this.ownParts.map((part) => takeCharge(part, key, cost)),
          TAKE,
        ),
      );
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async peek(key: string, cost = 1): Promise<Decision> {
    this.check(key, cost);
    return this.charging.decide(
      this.ownParts.map((part) => peekCharge(part, key, cost)),
      PEEK,
    );
  }

  async refund(key: string, cost: number, decision?: Decision): Promise<void> {
    this.check(key, cost);
    // consume() takes nothing from a part without a rate. The strikes of a penalty are refunded only by its own limiter.
    const isOwnPenalty = this.ownParts.length === 1 && decision === undefined;
    const refunds = this.ownParts.map((part) =>
      chargeTo(part, key, hasRate(part.policy) || isOwnPenalty ? cost : 0, "refund"),
    );
    await this.charging.refund(refunds, decision);
  }

  async reset(key: string): Promise<void> {
    this.check(key, 0);
    await Promise.all(
      this.ownParts.map(async (part) => part.engine.apply([[chargeTo(part, key, 0, "reset")]], DEMAND)),
    );
  }

  async inspect(key: string): Promise<Inspection> {
    this.check(key, 0);
    const parts = await Promise.all(
      this.ownParts.map(({ engine, policy, context }) =>
        engine.inspect(policy, key, monotonicMs() + context.deadlineMs),
      ),
    );
    return this.charging.summarize(parts);
  }

  getPolicy(): ResolvedPolicy {
    return this.smallest;
  }

  async dispose(): Promise<void> {
    const { life, release } = this;
    if (life.ended) return;
    life.ended = true;
    if (!release) return;
    for (const { context } of this.ownParts) await context.onDispose?.();
    await release();
  }

  parts(): readonly Part[] {
    if (this.life.ended) rejectDisposed("limiter");
    return this.ownParts;
  }

  decide(charges: PartGroup, act: Act): MaybePromise<Decision> {
    return this.charging.decide(charges, act);
  }

  protected check(key: string, cost: number): void {
    if (this.life.ended) rejectDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }
}

/** A limiter whose stores are all synchronous. */
export class SyncLimiter extends Limiter implements SyncRateLimiter {
  private readonly buckets: PolicyBuckets;

  constructor(parts: readonly Part[], charging?: Charging, release?: () => Promise<void>, life?: Life) {
    super(parts, charging, release, life);
    this.buckets = this.charging.open(parts);
  }

  consumeSync(key: string, cost = 1): Decision {
    // A short form of check(), which then throws the right error.
    if (this.life.ended || typeof key !== "string" || key === "" || !isCost(cost)) this.check(key, cost);
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

/** The options of a limiter whose store can't fail. */
export function defaultContext(policy: CompiledPolicy): LimiterContext {
  return { onStoreError: "local", deadlineMs: 250, localDenialMs: 1000, onEvent: undefined, localPolicy: policy };
}
