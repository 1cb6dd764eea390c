/**
 * Denies again, without asking, who has just been denied: time alone frees budget, and the store has said how long
 * that takes. It never admits more. Another process that refunds or resets the key is noticed `localDenialMs` later
 * at most; a limiter here that shares the store, at once.
 */

import type { CompiledPolicy } from "../core/compile.ts";
import { copyKey } from "../core/copy-key.ts";
import type { Decision, Denied } from "../core/decision.ts";

/** So many denials are kept; the oldest go first, and then are only asked again. */
const MAX_DENIALS = 10_000;
/** Longer keys are always asked: what a client writes into a header must not fill the memory. */
const MAX_KEY_CHARS = 512;

/**
 * A cached denial ends this long before `retryAfterMs`, so that a caller who waits with `setTimeout(retryAfterMs)` always
 * reaches the store: Node's timers fire up to 1 ms early, and the store reads its clock in whole milliseconds.
 */
const EARLY_MS = 2;

/** A denial of the store. Times are elapsed milliseconds. */
export interface Denial {
  readonly decision: Denied;
  readonly cost: number;
  /** It stands for so long after the asking: counted from the reply, it would last longer than the store's own. */
  readonly sentAt: number;
  /** What it says is told as of the reply: who waits that long is admitted. */
  readonly repliedAt: number;
}

/** What was denied lately, by key. */
export class DenialCache {
  private readonly byKey: Map<string, Denial> = new Map();

  /** The denial of this key that has not run out. Whether the key was refunded or reset since is for the caller to ask. */
  find(key: string, now: number, forMs: number): Denial | undefined {
    const denial = this.byKey.get(key);
    if (denial === undefined) return undefined;
    const lasts = (denial.decision.retryAfterMs as number) - EARLY_MS;
    if (now - denial.sentAt < Math.min(lasts, forMs)) return denial;
    // Others may repeat it for longer.
    if (now - denial.sentAt >= lasts) this.byKey.delete(key);
    return undefined;
  }

  /** Notes a decision of the store, if it is a denial that time will lift. What was allowed makes others wait longer. */
  record(key: string, cost: number, decision: Decision, sentAt: number, now: number): void {
    if (decision.allowed && this.byKey.size > 0) this.byKey.delete(key);
    if (decision.allowed || decision.retryAfterMs === null || decision.degraded || decision.unavailable) return;
    if (key.length > MAX_KEY_CHARS) return;
    const known = this.byKey.get(key);
    // The lowest cost says the most: who is denied that is denied more.
    if (known && known.cost < cost && now - known.sentAt < (known.decision.retryAfterMs as number)) return;
    this.byKey.delete(key);
    this.byKey.set(copyKey(key), { decision, cost, sentAt, repliedAt: now });
    if (this.byKey.size > MAX_DENIALS) this.byKey.delete(this.byKey.keys().next().value as string);
  }
}

/** What a denial says now. */
export function replay({ decision, repliedAt }: Denial, now: number): Denied {
  return later(decision, Math.floor(now - repliedAt), 0);
}

/**
 * What a denial says to a greater cost, which waits longer: by how much is known of buckets and fixed windows. The
 * rest, and a lower cost, is a question for the store.
 */
export function replayFor(denial: Denial, cost: number, policy: CompiledPolicy, now: number): Denied | undefined {
  const { decision, cost: denied, repliedAt } = denial;
  if (cost === denied) return replay(denial, now);
  if (cost < denied || cost > policy.limit) return undefined;
  if (!policy.refills && policy.algorithm !== "fixed-window") return undefined;
  const longer = policy.refills ? Math.ceil(((cost - denied) * policy.unitsPerToken) / policy.unitsPerMs) : 0;
  return later(decision, Math.floor(now - repliedAt), longer);
}

/** The same denial some milliseconds later, for a cost that waits so much longer. */
function later(decision: Denied, passed: number, longer: number): Denied {
  const { policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs, parts } = decision;
  const denied: Denied = {
    allowed: false,
    policy,
    limit,
    remaining,
    resetAfterMs: Math.max(1, resetAfterMs - passed),
    nextAfterMs: Math.max(1, nextAfterMs - passed),
    retryAfterMs: Math.max(1, (retryAfterMs as number) + longer - passed),
  };
  if (parts === undefined && !decision.approximate && !decision.unknown) return denied;
  return { ...decision, ...denied, ...(parts && { parts: parts.map((part) => laterPart(part, passed)) }) };
}

function laterPart(part: Decision, passed: number): Decision {
  if (!part.allowed && part.retryAfterMs !== null) return later(part, passed, 0);
  const resetAfterMs = Math.max(0, part.resetAfterMs - passed);
  return { ...part, resetAfterMs, nextAfterMs: Math.min(resetAfterMs, Math.max(1, part.nextAfterMs - passed)) };
}
