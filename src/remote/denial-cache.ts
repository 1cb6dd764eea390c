/**
 * Cached denials: a key that was just denied is denied again without a round trip, because only time can free budget,
 * and the store has returned how long that takes. The cache never admits more. A refund or reset by another process is
 * seen `localDenialMs` later at most; one in this process at once.
 */

import { BoundedMap } from "../base/bounded-map.ts";
import { monotonicMs } from "../base/clock.ts";
import { shared } from "../base/shared-state.ts";
import type { Act, PartCharge, PartGroup, Step } from "../core/apply.ts";
import type { Decision, Denied } from "../core/decision.ts";
import { originOf, type Store } from "../core/store.ts";
import { usedFallbackOf } from "./fallback.ts";

/** The oldest denials are evicted first; their keys then cost a round trip again. */
const MAX_DENIALS = 20_000;
/** Longer keys are not cached: a client could fill the memory with a header. */
const MAX_KEY_LENGTH = 1024;

/**
 * A cached denial ends this long before `retryAfterMs`, so that a caller who waits with `setTimeout(retryAfterMs)` always
 * reaches the store: Node's timers fire up to 1 ms early, and the store reads its clock in whole milliseconds.
 */
const EARLY_MS = 2;

/** A denial by the store. Times are monotonic milliseconds. */
interface Denial {
  /** One per charge of the group. */
  readonly decisions: readonly Decision[];
  /** The denied cost of a single charge. The costs of a group are a part of its key. */
  readonly cost: number;
  /** It is valid from here on: counted from the reply, it would last longer than in the store. */
  readonly sentAt: number;
  /** Its durations are counted from here on: a caller who waits that long is admitted. */
  readonly repliedAt: number;
  /** How long no other caller can end it. */
  readonly waitMs: number;
  /** How long it would be denied again in the same way. */
  readonly lastsMs: number;
}

/** Evicted entries collapse into one timestamp that applies to all keys. */
const MAX_FREED_KEYS = 1000;
/**
 * When this process last refunded or reset a key, in monotonic ms. Denials that were sent before that are out of date: a
 * cached one must not be replayed, and a reply that was in flight must not be cached. Longer keys count as all keys.
 */
class Invalidations {
  private allBefore: number = Number.NEGATIVE_INFINITY;
  private readonly times: BoundedMap<string, number> = new BoundedMap({
    maxEntries: MAX_FREED_KEYS,
    maxKeyLength: MAX_KEY_LENGTH,
    onEvict: (_, time) => {
      this.allBefore = Math.max(this.allBefore, time);
    },
  });

  /** Records that budget of a key was freed. */
  record(policyId: string, key: string, now: number): void {
    if (!this.times.set(`${policyId}\0${key}`, now)) this.allBefore = now;
  }

  /** Whether a decision that was requested at `sentAt` is still valid. */
  isCurrent(policyId: string, key: string, sentAt: number): boolean {
    if (sentAt <= this.allBefore) return false;
    return this.times.size === 0 || sentAt > (this.times.get(`${policyId}\0${key}`) ?? Number.NEGATIVE_INFINITY);
  }
}

/** The latest denials of one backing service, by the charges that were denied. All limiters on it share them. */
export class DenialCache implements Step {
  private readonly denials: BoundedMap<string, Denial> = new BoundedMap({
    maxEntries: MAX_DENIALS,
    maxKeyLength: MAX_KEY_LENGTH,
  });
  private readonly invalidations: Invalidations = new Invalidations();

  before(groups: readonly PartGroup[], act: Act, now: number): Decision[][] | undefined {
    if (act.frees) {
      this.free(groups);
      return undefined;
    }
    const group = groups[0] as PartGroup;
    if (!act.isCached || this.denials.size === 0 || !isCacheable(group)) return undefined;
    const denial = this.find(group, now, cacheMs(group));
    if (!denial || !this.isCurrent(group, denial.sentAt)) return undefined;
    const decisions = replay(denial, group, now);
    return decisions && [decisions];
  }

  after(groups: readonly PartGroup[], act: Act, [decisions]: readonly Decision[][], sentAt: number): void {
    // Once more: a call that was sent meanwhile may have been denied before this one was applied.
    if (act.frees) this.invalidate(groups);
    if (!act.isCached || !decisions) return;
    const isAllowed = decisions.every(({ allowed }) => allowed);
    if (isAllowed && this.denials.size === 0) return;
    const group = groups[0] as PartGroup;
    if (isCacheable(group) && cacheMs(group) > 0 && this.isCurrent(group, sentAt)) {
      this.record(group, decisions, isAllowed, sentAt);
    }
  }

  /** The denial of the same charges, or of one charge with another cost, if it is younger than `forMs` and has not ended. */
  private find(group: PartGroup, now: number, forMs: number): Denial | undefined {
    const key = cacheKey(group);
    const denial = this.denials.get(key);
    if (denial === undefined) return undefined;
    const lastsMs = denial.lastsMs - EARLY_MS;
    const age = now - denial.sentAt;
    if (age < Math.min(lastsMs, forMs)) return denial;
    // Limiters with a longer localDenialMs may still replay it.
    if (age >= lastsMs) this.denials.delete(key);
    return undefined;
  }

  /** Records a reply of the store. An allowed one drops the denial: what was taken makes others wait longer. */
  private record(group: PartGroup, decisions: readonly Decision[], isAllowed: boolean, sentAt: number): void {
    // Not what was decided without the store.
    if (decisions.some(({ source }) => source)) return;
    if (isAllowed) {
      this.denials.delete(cacheKey(group));
      return;
    }
    const waitMs = waitOf(decisions);
    const lastsMs = waitMs && lastsFor(group, decisions, waitMs);
    if (!waitMs || lastsMs === undefined) return;
    const key = cacheKey(group);
    const cost = group.length > 1 ? 0 : (group[0] as PartCharge).cost;
    const known = this.denials.get(key);
    const now = monotonicMs();
    // The lowest cost covers the most: higher ones are denied as well.
    if (known && known.cost < cost && now - known.sentAt < known.waitMs) return;
    this.denials.set(key, { decisions, cost, sentAt, repliedAt: now, waitMs, lastsMs });
  }

  /** Ends the denials of keys whose budget is freed, and resets their buckets in the fallback as well. */
  private free(groups: readonly PartGroup[]): void {
    this.invalidate(groups);
    for (const group of groups) {
      for (const { mode, engine, context, key, cost } of group) {
        if (mode !== "reset") continue;
        usedFallbackOf(engine.store)?.applySync([{ policy: context.localPolicy, key, cost, mode }]);
      }
    }
  }

  private invalidate(groups: readonly PartGroup[]): void {
    for (const group of groups) {
      for (const { policy, key } of group) this.invalidations.record(policy.id, key, monotonicMs());
    }
  }

  private isCurrent(group: PartGroup, sentAt: number): boolean {
    for (const { policy, key } of group) if (!this.invalidations.isCurrent(policy.id, key, sentAt)) return false;
    return true;
  }
}

const caches = /* @__PURE__ */ shared("denialCaches", () => new WeakMap<object, DenialCache>());

/** The denial cache of a store. Stores with the same origin share it. */
export function denialCacheOf(store: Store): DenialCache {
  const origin = originOf(store);
  let cache = caches.get(origin);
  if (!cache) caches.set(origin, (cache = new DenialCache()));
  return cache;
}

/** Whether a denial of the same keys applies. A hold that may exist already can be replaced by a smaller one. */
function isCacheable(group: PartGroup): boolean {
  if (group.length === 1) {
    const { cost, mode, isNewHold } = group[0] as PartCharge;
    return cost > 0 && (mode === "take" || mode === "penalty" || (mode === "hold" && isNewHold === true));
  }
  return group.every(({ mode, isNewHold }) => mode !== "hold" || isNewHold === true);
}

/** How long a denial of these charges is cached, in ms. */
function cacheMs(group: PartGroup): number {
  let least = Number.POSITIVE_INFINITY;
  for (const { context } of group) least = Math.min(least, context.localDenialMs);
  return least;
}

/**
 * How long no other caller can end a denial, in ms: a hold may be settled at any time. `undefined`: time
 * doesn't end it.
 */
function waitOf(decisions: readonly Decision[]): number | undefined {
  let waitMs = 0;
  for (const decision of decisions) {
    if (decision.degraded) return undefined;
    if (decision.allowed) continue;
    if (decision.retryAfterMs === null || decision.unavailable) return undefined;
    waitMs = Math.max(waitMs, decision.earliestRetryMs ?? decision.retryAfterMs);
  }
  return waitMs;
}

/**
 * How long a denial may be repeated, in ms. `undefined`: not at all, because each violation is a strike. While a penalty of
 * the group blocks its key there are no strikes, whichever other penalties the group has.
 */
function lastsFor(group: PartGroup, decisions: readonly Decision[], waitMs: number): number | undefined {
  if (!group.some(({ mode }) => mode === "penalty")) return waitMs;
  let blockMs: number | undefined;
  for (const [i, { policy }] of group.entries()) {
    const { allowed, retryAfterMs } = decisions[i] as Decision;
    if (policy.kind === "penalty" && !allowed) blockMs = Math.max(blockMs ?? 0, retryAfterMs ?? 0);
  }
  return blockMs === undefined ? undefined : Math.min(waitMs, blockMs);
}

/** Identifies charges that get the same decisions. A single charge has the same key for every cost. */
function cacheKey(group: PartGroup): string {
  const { policy, key } = group[0] as PartCharge;
  if (group.length === 1) return `${policy.fingerprint}\0${key}`;
  return group.map(({ policy, key, cost }) => `${cost}\0${policy.fingerprint}\0${key.length}\0${key}`).join("");
}

/**
 * The denial as of `now`. A single charge may have a greater cost, which waits longer. `undefined`: only the store knows
 * for how long.
 */
function replay({ decisions, cost, repliedAt }: Denial, group: PartGroup, now: number): Decision[] | undefined {
  const passedMs = Math.floor(now - repliedAt);
  if (group.length > 1) return decisions.map((decision) => laterPart(decision, passedMs));
  const charge = group[0] as PartCharge;
  const { policy } = charge;
  const denied = decisions[0] as Denied;
  // Of limiters with the same buckets, each has the text that it was written as.
  if (charge.cost === cost) return [later(denied, policy.name, passedMs, 0)];
  // Beside holds, a greater cost may have to wait for another one to end.
  if (charge.cost < cost || charge.cost > policy.limit || denied.held) return undefined;
  const extraMs = policy.algorithm.extraWaitMs?.(policy, charge.cost - cost);
  return extraMs === undefined ? undefined : [later(denied, policy.name, passedMs, extraMs)];
}

/** The same denial `passedMs` later, for a cost that waits `extraMs` longer. */
function later(decision: Denied, policy: string, passedMs: number, extraMs: number): Denied {
  const { limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs, earliestRetryMs, held } = decision;
  const denied: Denied = {
    allowed: false,
    policy,
    limit,
    remaining,
    resetAfterMs: Math.max(1, resetAfterMs - passedMs),
    nextAfterMs: Math.max(1, nextAfterMs - passedMs),
    retryAfterMs: Math.max(1, (retryAfterMs as number) + extraMs - passedMs),
    source: "cache",
  };
  if (held !== undefined) Object.assign(denied, { held });
  if (earliestRetryMs !== undefined) {
    Object.assign(denied, { earliestRetryMs: Math.max(1, earliestRetryMs + extraMs - passedMs) });
  }
  return decision.approximate || decision.unknown ? { ...decision, ...denied } : denied;
}

function laterPart(part: Decision, passedMs: number): Decision {
  if (!part.allowed && part.retryAfterMs !== null) return later(part, part.policy, passedMs, 0);
  const resetAfterMs = Math.max(0, part.resetAfterMs - passedMs);
  const nextAfterMs = Math.min(resetAfterMs, Math.max(1, part.nextAfterMs - passedMs));
  return { ...part, resetAfterMs, nextAfterMs, source: "cache" };
}
