/**
 * Cached denials: a key that was just denied is denied again without a round trip, because only time can free budget,
 * and the store has returned how long that takes. The cache never admits more. A refund or reset by another process is
 * seen `localDenialMs` later at most; one in this process at once (invalidations.ts).
 */
import { BoundedMap } from "../core/bounded-map.ts";
import type { Charge } from "../core/charge.ts";
import type { Decision, Denied } from "../core/decision.ts";

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
export interface Denial {
  readonly decision: Denied;
  /** The denied cost of a single charge. The costs of a group are a part of its key. */
  readonly cost: number;
  /** It is valid from here on: counted from the reply, it would last longer than in the store. */
  readonly sentAt: number;
  /** Its durations are counted from here on: a caller who waits that long is admitted. */
  readonly repliedAt: number;
  /** How long it would be denied again in the same way. */
  readonly lastsMs: number;
}

/** The latest denials of one store, by the charges that were denied. */
export class DenialCache {
  private readonly denials: BoundedMap<string, Denial> = new BoundedMap({
    maxEntries: MAX_DENIALS,
    maxKeyLength: MAX_KEY_LENGTH,
  });

  get size(): number {
    return this.denials.size;
  }

  /**
   * Returns the denial of the same charges, or of one charge with another cost, if it is younger than `forMs` and has not
   * ended. The caller checks whether a key was refunded or reset after it was sent.
   */
  find(charges: readonly Charge[], now: number, forMs: number, isJoint: boolean): Denial | undefined {
    const key = cacheKey(charges, isJoint);
    const denial = this.denials.get(key);
    if (denial === undefined) return undefined;
    const lastsMs = denial.lastsMs - EARLY_MS;
    const age = now - denial.sentAt;
    if (age < Math.min(lastsMs, forMs)) return denial;
    // Limiters with a longer localDenialMs may still replay it.
    if (age >= lastsMs) this.denials.delete(key);
    return undefined;
  }

  /** Records a decision of the store. An allowed one drops the denial: what was taken makes others wait longer. */
  record(
    charges: readonly Charge[],
    decision: Decision,
    { sentAt, now, isJoint }: { sentAt: number; now: number; isJoint: boolean },
  ): void {
    if (decision.allowed) {
      if (this.denials.size > 0) this.denials.delete(cacheKey(charges, isJoint));
      return;
    }
    // A denial that was made without the store, or that time doesn't end, is not cached.
    if (decision.retryAfterMs === null || decision.source || decision.degraded || decision.unavailable) return;
    const lastsMs = lastsFor(charges, decision);
    if (lastsMs === undefined) return;
    const key = cacheKey(charges, isJoint);
    const cost = isJoint ? 0 : (charges[0] as Charge).cost;
    const known = this.denials.get(key);
    // The lowest cost covers the most: higher ones are denied as well.
    if (known && known.cost < cost && now - known.sentAt < waitOf(known.decision)) return;
    this.denials.set(key, { decision, cost, sentAt, repliedAt: now, lastsMs });
  }
}

/**
 * How long a denial may be repeated, in ms. `undefined`: not at all, because each violation is a strike. While a penalty of
 * the group blocks its key there are no strikes, whichever other penalties the group has.
 */
function lastsFor(charges: readonly Charge[], decision: Denied): number | undefined {
  const waitMs = waitOf(decision);
  if (!charges.some(({ mode }) => mode === "penalty")) return waitMs;
  let blockMs: number | undefined;
  for (const [i, { policy }] of charges.entries()) {
    const part = decision.parts?.[i] ?? decision;
    if (policy.kind === "penalty" && !part.allowed) blockMs = Math.max(blockMs ?? 0, part.retryAfterMs ?? 0);
  }
  return blockMs === undefined ? undefined : Math.min(waitMs, blockMs);
}

/** How long no other caller can end a denial, in ms: a hold may be settled at any time. */
function waitOf({ earliestRetryMs, retryAfterMs }: Denied): number {
  return earliestRetryMs ?? (retryAfterMs as number);
}

/**
 * Identifies charges that get the same decision. A single charge has the same key for every cost. A joint charge has a
 * key of its own also if it is only one, because its decision has parts.
 */
function cacheKey(charges: readonly Charge[], isJoint: boolean): string {
  const [{ policy, key } = {} as Charge] = charges;
  if (!isJoint) return `${policy.fingerprint}\0${key}`;
  return charges.map(({ policy, key, cost }) => `${cost}\0${policy.fingerprint}\0${key.length}\0${key}`).join("");
}

/**
 * The denial as of `now`. A single charge may have a greater cost, which waits longer. `undefined`: only the store knows
 * for how long.
 */
export function replay(denial: Denial, charges: readonly Charge[], now: number, isJoint: boolean): Denied | undefined {
  const passedMs = Math.floor(now - denial.repliedAt);
  const { policy, cost } = charges[0] as Charge;
  // Of limiters with the same buckets, each has the text that it was written as.
  const name = isJoint ? denial.decision.policy : policy.name;
  if (isJoint || cost === denial.cost) return later(denial.decision, name, passedMs, 0);
  // Beside holds, a greater cost may have to wait for another one to end.
  if (cost < denial.cost || cost > policy.limit || denial.decision.held) return undefined;
  const extraMs = policy.algorithm.extraWaitMs?.(policy, cost - denial.cost);
  return extraMs === undefined ? undefined : later(denial.decision, name, passedMs, extraMs);
}

/** The same denial `passedMs` later, for a cost that waits `extraMs` longer. */
function later(decision: Denied, policy: string, passedMs: number, extraMs: number): Denied {
  const { limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs, earliestRetryMs, held, parts } = decision;
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
  if (parts === undefined && !decision.approximate && !decision.unknown) return denied;
  return { ...decision, ...denied, ...(parts && { parts: parts.map((part) => laterPart(part, passedMs)) }) };
}

function laterPart(part: Decision, passedMs: number): Decision {
  if (!part.allowed && part.retryAfterMs !== null) return later(part, part.policy, passedMs, 0);
  const resetAfterMs = Math.max(0, part.resetAfterMs - passedMs);
  const nextAfterMs = Math.min(resetAfterMs, Math.max(1, part.nextAfterMs - passedMs));
  return { ...part, resetAfterMs, nextAfterMs, source: "cache" };
}
