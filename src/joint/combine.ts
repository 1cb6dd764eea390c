/** Several limits in one decision, all or nothing. */
import { checkCost, checkKey } from "../core/charge.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { optionError, SluiceError } from "../core/errors.ts";
import { isGrant } from "../core/grant.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { checkOptions } from "../core/options.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import type { PolicyBuckets, SyncStore } from "../core/store.ts";
import { applyJointly, checkTogether, refundJointly } from "./joint-charge.ts";
import { Limiter } from "../core/limiter.ts";
import { type JointCharge, type LimiterPart, partsOf } from "../core/limiter-part.ts";
import { merge } from "./merge.ts";
import { hasRate, peekCharge, takeCharge } from "../core/part-charges.ts";

/** Combines limiters that are charged the same key and cost, all or nothing: a burst limit and a daily quota. */
export function combine(limiters: readonly SyncRateLimiter[]): SyncRateLimiter;
export function combine(limiters: readonly RateLimiter[]): RateLimiter;
export function combine(limiters: readonly RateLimiter[]): RateLimiter {
  if (!Array.isArray(limiters)) {
    throw optionError("invalid-option", "limiters", "a list of limiters", limiters);
  }
  const parts = limiters.flatMap(partsOf);
  checkTogether("limiters", parts);
  return parts.every(({ port }) => port.syncStore) ? new SyncCombinedLimiter(parts) : new CombinedLimiter(parts);
}

class CombinedLimiter extends Limiter {
  private readonly policies: readonly ResolvedPolicy[];

  constructor(parts: readonly LimiterPart[]) {
    super(parts);
    this.policies = Object.freeze(parts.map(({ policy }) => policy.resolved));
  }

  getPolicies(): readonly ResolvedPolicy[] {
    return this.policies;
  }

  override apply(charges: readonly JointCharge[]): MaybePromise<Decision> {
    return applyJointly(charges);
  }

  protected override async refundCharges(
    charges: readonly JointCharge[],
    decision: Decision | undefined,
  ): Promise<void> {
    if (decision === undefined) return refundJointly(charges);
    if (!isGrant(decision)) return;
    const { parts } = decision;
    if (parts?.length === charges.length) return refundJointly(charges, parts);
    throw optionError("invalid-option", "decision", "a decision of this combination of limiters", decision);
  }

  protected override summarize(parts: readonly Inspection[]): Inspection {
    const tightest = parts.reduce((least, part) => (part.remaining < least.remaining ? part : least));
    return { ...tightest, parts };
  }
}

class SyncCombinedLimiter extends CombinedLimiter implements SyncRateLimiter {
  /** The one store of all parts, if all have a rate, no bucket is named twice and none is observed: then a decision is one short step. */
  private readonly store: SyncStore | undefined;
  private readonly buckets: readonly PolicyBuckets[];

  constructor(parts: readonly LimiterPart[]) {
    super(parts);
    const { port } = parts[0] as LimiterPart;
    const ids = new Set(parts.map(({ policy }) => policy.id));
    const isOneStore =
      ids.size === parts.length &&
      parts.every(
        (part) => part.port.store === port.store && hasRate(part.policy) && part.failurePolicy.observed === undefined,
      );
    this.store = isOneStore ? port.syncStore : undefined;
    this.buckets = this.store ? parts.map(({ policy }) => (this.store as SyncStore).open(policy)) : [];
  }

  consumeSync(key: string, cost = 1): Decision {
    this.check(key, cost);
    if (this.store) return merge(this.store.takeAll(this.buckets, key, cost));
    // Synchronous, because every store is.
    return applyJointly(this.limiterParts.map((part) => takeCharge(part, key, cost))) as Decision;
  }

  override consume(key: string, cost = 1): Promise<Decision> {
    try {
      return Promise.resolve(this.consumeSync(key, cost));
    } catch (error) {
      return Promise.reject(error);
    }
  }
}

/** One key and cost for one limiter. */
export interface LimiterCharge {
  /** The limiter to charge. */
  limiter: RateLimiter;
  /** The key to charge. */
  key: string;
  /** The cost. Default: 1. */
  cost?: number;
}

/** Charges several limiters with keys of their own, all or nothing: a user and an IP address. */
export async function consumeAll(charges: readonly LimiterCharge[]): Promise<Decision> {
  if (!Array.isArray(charges)) {
    throw optionError("invalid-option", "charges", "a list of { limiter, key, cost? }", charges);
  }
  const checked = charges.map((charge: LimiterCharge) => {
    if (typeof (charge as Partial<RateLimiter> | undefined)?.consume === "function") {
      const message =
        "consumeAll() takes { limiter, key } for each limiter. For one key and several limiters, use combine(limiters).";
      throw new SluiceError("invalid-option", message, { option: "charges", expected: "a list of { limiter, key }" });
    }
    checkOptions("a charge", charge, ["limiter", "key", "cost"]);
    const { limiter, key, cost = 1 } = charge;
    checkKey(key);
    checkCost(cost);
    return { limiter, key, cost };
  });
  return consumeChecked(checked);
}

/** One key and cost for one limiter. Key and cost have been checked. */
export interface CheckedCharge extends Readonly<Required<LimiterCharge>> {
  /** Whether nothing is taken: a penalty that only denies while its key is blocked. Default: false. */
  readonly isPeeked?: boolean;
}

/** The same for charges whose keys and costs are checked, without a promise if every store is synchronous. */
export function consumeChecked(charges: readonly CheckedCharge[]): MaybePromise<Decision> {
  const all = jointCharges(charges);
  checkTogether("charges", all);
  return applyJointly(all);
}

/** The charges to all parts of the limiters, in order. */
export function jointCharges(charges: readonly CheckedCharge[]): JointCharge[] {
  return charges.flatMap(({ limiter, key, cost, isPeeked }) => {
    const takeOrPeek = isPeeked ? peekCharge : takeCharge;
    return partsOf(limiter).map((part) => takeOrPeek(part, key, cost));
  });
}
