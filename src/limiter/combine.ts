/** Several limits on one request, all or none. */
import { checkCost, checkKey } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { optionError, rejectDisposed } from "../core/errors.ts";
import { checkOptions } from "../core/options.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import { type Consistency, isSync, type PolicyBuckets, type Store, type SyncStore } from "../core/store.ts";
import { DenialCache, replay } from "../resilience/denial-cache.ts";
import { healthOf } from "../resilience/store-health.ts";
import { chargeJointly, chargeJointlySync, checkTogether, type PartCharge, refundJointly } from "./joint-charge.ts";
import { type ComposableLimiter, type LimiterPart, partsOf } from "./limiter-part.ts";
import { merge } from "./merge.ts";

/** One limiter that asks several, with the same key and cost: a burst and a daily quota. */
export function combine(limiters: readonly SyncRateLimiter[]): SyncRateLimiter;
export function combine(limiters: readonly RateLimiter[]): RateLimiter;
export function combine(limiters: readonly RateLimiter[]): RateLimiter {
  if (!Array.isArray(limiters)) {
    throw optionError("invalid-option", "limiters", "a list of limiters", limiters);
  }
  const bindings = limiters.flatMap(partsOf);
  checkTogether("limiters", bindings);
  return bindings.every(({ store }) => isSync(store)) ? new SyncCombined(bindings) : new Combined(bindings);
}

class Combined implements ComposableLimiter {
  readonly consistency: Consistency;
  protected readonly limiterParts: readonly LimiterPart[];
  private readonly policies: readonly ResolvedPolicy[];
  private readonly denials: DenialCache = new DenialCache();
  private disposed = false;

  constructor(bindings: readonly LimiterPart[]) {
    this.limiterParts = bindings;
    this.policies = Object.freeze(bindings.map(({ policy }) => policy.resolved));
    this.consistency = bindings.every(({ store }) => store.consistency === "exact") ? "exact" : "approximate";
  }

  async consume(key: string, cost = 1): Promise<Decision> {
    return takeUnlessDenied(this.spends(key, cost), `${cost}:${key}`, this.denials);
  }

  async peek(key: string, cost = 1): Promise<Decision> {
    return chargeJointly(this.spends(key, cost), "peek");
  }

  async refund(key: string, cost: number, decision?: Decision): Promise<void> {
    await refundJointly(this.spends(key, cost), decision);
  }

  async reset(key: string): Promise<void> {
    await Promise.all(
      this.spends(key, 0).map(({ store, policy, failurePolicy }) =>
        isSync(store)
          ? store.reset(policy, key)
          : healthOf(store).reset(
              store,
              policy,
              failurePolicy.localPolicy,
              key,
              monotonicMs() + failurePolicy.deadlineMs,
            ),
      ),
    );
  }

  async inspect(key: string): Promise<Inspection> {
    const parts = await Promise.all(
      this.spends(key, 0).map(({ store, policy, failurePolicy }) =>
        isSync(store)
          ? store.inspect(policy, key)
          : healthOf(store).inspect(store, policy, key, monotonicMs() + failurePolicy.deadlineMs),
      ),
    );
    const tightest = parts.reduce((least, part) => (part.remaining < least.remaining ? part : least));
    return { ...tightest, parts };
  }

  getPolicy(): ResolvedPolicy {
    return this.policies.reduce((least, policy) => (policy.capacity < least.capacity ? policy : least));
  }

  getPolicies(): readonly ResolvedPolicy[] {
    return this.policies;
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  parts(): readonly LimiterPart[] {
    if (this.disposed) rejectDisposed("limiter");
    return this.limiterParts;
  }

  protected check(key: string, cost: number): void {
    if (this.disposed) rejectDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }

  protected spends(key: string, cost: number): PartCharge[] {
    this.check(key, cost);
    return this.limiterParts.map(({ store, policy, failurePolicy }) => ({ store, policy, failurePolicy, key, cost }));
  }
}

class SyncCombined extends Combined implements SyncRateLimiter {
  /** The one store of all parts, when no bucket is named twice: then a decision is one short step. */
  private readonly store: SyncStore | undefined;
  private readonly buckets: readonly PolicyBuckets[];

  constructor(bindings: readonly LimiterPart[]) {
    super(bindings);
    const store = bindings[0]?.store as SyncStore;
    const names = new Set(bindings.map(({ policy }) => policy.id));
    const one = names.size === bindings.length && bindings.every((binding) => binding.store === store);
    this.store = one ? store : undefined;
    this.buckets = one ? bindings.map(({ policy }) => store.open(policy)) : [];
  }

  consumeSync(key: string, cost = 1): Decision {
    if (!this.store) return chargeJointlySync(this.spends(key, cost), "take");
    this.check(key, cost);
    return merge(this.store.takeAll(this.buckets, key, cost));
  }

  override async consume(key: string, cost = 1): Promise<Decision> {
    return this.consumeSync(key, cost);
  }
}

/** One key and cost for one limiter. */
export interface LimiterCharge {
  /** The limiter to ask. */
  limiter: RateLimiter;
  /** The key it is asked about. */
  key: string;
  /** What the key would spend. Default: 1. */
  cost?: number;
}

/** Takes from several limiters with keys of their own, all or none: a user and an address. */
export async function consumeAll(charges: readonly LimiterCharge[]): Promise<Decision> {
  if (!Array.isArray(charges)) {
    throw optionError("invalid-option", "charges", "a list of { limiter, key, cost? }", charges);
  }
  const checked = charges.map((charge: LimiterCharge) => {
    if (typeof (charge as Partial<RateLimiter> | undefined)?.consume === "function") {
      const expected = "{ limiter, key } for each limiter; for one key and several limiters, use combine(limiters)";
      throw optionError("invalid-option", "charges", expected, charge);
    }
    checkOptions("a charge", charge, ["limiter", "key", "cost"]);
    const { limiter, key, cost = 1 } = charge;
    checkKey(key);
    checkCost(cost);
    return { limiter, key, cost };
  });
  return consumeChecked(checked);
}

/** The same for charges whose keys and costs are checked, without a promise where every store is synchronous. */
export function consumeChecked(charges: readonly Required<LimiterCharge>[]): Decision | Promise<Decision> {
  const spends: PartCharge[] = [];
  let sync = true;
  for (const { limiter, key, cost } of charges) {
    for (const { store, policy, failurePolicy } of partsOf(limiter)) {
      spends.push({ store, policy, failurePolicy, key, cost });
      sync &&= isSync(store);
    }
  }
  checkTogether("charges", spends);
  if (sync) return chargeJointlySync(spends, "take");
  const { store } = spends[0] as PartCharge;
  let denials = denialsOf.get(store);
  if (!denials) denialsOf.set(store, (denials = new DenialCache()));
  const name = spends
    .map(
      ({ policy, key, cost }) =>
        `${cost}:${policy.limit}:${policy.windowMs}:${policy.id.length}:${key.length}:${policy.id}${key}`,
    )
    .join();
  return takeUnlessDenied(spends, name, denials);
}

/** What `consumeAll` was denied lately, for each store. */
const denialsOf = new WeakMap<Store, DenialCache>();

/** Takes, unless the very same was denied a moment ago. That is only remembered of one store that is elsewhere. */
async function takeUnlessDenied(spends: readonly PartCharge[], name: string, denials: DenialCache): Promise<Decision> {
  const { store } = spends[0] as PartCharge;
  const forMs = Math.min(...spends.map(({ failurePolicy }) => failurePolicy.localDenialMs));
  if (forMs === 0 || isSync(store) || spends.some((spend) => spend.store !== store))
    return chargeJointly(spends, "take");
  const { invalidations } = healthOf(store);
  const stands = (sentAt: number) => spends.every(({ policy, key }) => invalidations.isCurrent(policy.id, key, sentAt));
  const sentAt = monotonicMs();
  const denial = denials.find(name, sentAt, forMs);
  if (denial && stands(denial.sentAt)) return replay(denial, sentAt);
  const decision = await chargeJointly(spends, "take");
  if (stands(sentAt)) denials.record(name, 0, decision, sentAt, monotonicMs());
  return decision;
}
