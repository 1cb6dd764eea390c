/** The state that this process keeps about a store: cached denials, refunded keys, and the buckets of its fallback. */
import type { Charge } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Decision, Denied } from "../core/decision.ts";
import { shared } from "../core/shared-state.ts";
import { originOf, type Store, type SyncStore } from "../core/store.ts";
import { memoryStore } from "../memory/memory-store.ts";
import { DenialCache, replay } from "./denial-cache.ts";
import { Invalidations } from "./invalidations.ts";

/** One per backing service: all limiters on it share what is known about its keys. */
export class StoreMemory {
  private readonly denials: DenialCache = new DenialCache();
  private readonly invalidations: Invalidations = new Invalidations();
  private fallbackStore: SyncStore | undefined;

  /** Decides while the store is unavailable. Its buckets are kept after recovery: the store may fail again. */
  get fallback(): SyncStore {
    this.fallbackStore ??= memoryStore();
    return this.fallbackStore;
  }

  /** Whether the fallback was ever used. */
  get hasFallback(): boolean {
    return this.fallbackStore !== undefined;
  }

  /** The cached denial of these charges, if there is one. */
  cachedDenial(charges: readonly Charge[], now: number, forMs: number, isJoint: boolean): Denied | undefined {
    if (this.denials.size === 0) return undefined;
    const denial = this.denials.find(charges, now, forMs, isJoint);
    return denial && this.isCurrent(charges, denial.sentAt) ? replay(denial, charges, now, isJoint) : undefined;
  }

  /** Caches the store's decision on these charges if it is a denial, unless a key was refunded or reset meanwhile. */
  recordDecision(charges: readonly Charge[], decision: Decision, sentAt: number, isJoint: boolean): void {
    if (decision.allowed && this.denials.size === 0) return;
    if (this.isCurrent(charges, sentAt))
      this.denials.record(charges, decision, { sentAt, now: monotonicMs(), isJoint });
  }

  /** Runs a call that frees budget of some keys. Denials that were sent before it has ended are dropped. */
  async invalidating<T>(charges: readonly Charge[], call: () => Promise<T>): Promise<T> {
    this.invalidate(charges);
    const result = await call();
    // Once more: a call that was sent meanwhile may have been denied before this one was applied.
    this.invalidate(charges);
    return result;
  }

  private invalidate(charges: readonly Charge[]): void {
    for (const { policy, key } of charges) this.invalidations.record(policy.id, key, monotonicMs());
  }

  private isCurrent(charges: readonly Charge[], sentAt: number): boolean {
    for (const { policy, key } of charges) if (!this.invalidations.isCurrent(policy.id, key, sentAt)) return false;
    return true;
  }
}

const memories = /* @__PURE__ */ shared("memories", () => new WeakMap<object, StoreMemory>());

/** The memory of a store. Stores with the same origin share it. */
export function memoryOf(store: Store): StoreMemory {
  const origin = originOf(store);
  let memory = memories.get(origin);
  if (!memory) memories.set(origin, (memory = new StoreMemory()));
  return memory;
}
