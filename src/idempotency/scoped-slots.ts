/**
 * The entries of an idempotency store in memory, by name and by scope. A full store evicts from the scope that uses most
 * of it, so one client that writes as fast as it can evicts its own responses, and not those of others.
 */
import { copyKey } from "../base/copy-key.ts";
import type { Entry } from "./entry.ts";
import type { StoredResponse } from "./idempotency-store.ts";

/** An entry as it is kept. */
export interface Slot {
  readonly entry: Entry<StoredResponse>;
  /** In milliseconds since the epoch. */
  readonly expiresAt: number;
  readonly bytes: number;
}

/** What one scope uses. */
interface Share {
  readonly scope: string;
  /** Names of its responses, oldest first. */
  readonly responses: Set<string>;
  /** Entries, also those of requests in progress. */
  entries: number;
  /** Requests in progress, and their size in bytes. */
  claims: number;
  claimBytes: number;
  weight: number;
  /** The place in `levels`. */
  level: number;
}

interface OwnedSlot extends Slot {
  readonly share: Share;
}

/** Slots by name, and what their scopes use. */
export class ScopedSlots {
  readonly slots: Map<string, OwnedSlot> = new Map();
  /** Size of all entries, in bytes. */
  bytes = 0;
  /** Size of requests in progress, in bytes. */
  claimBytes = 0;
  private readonly shares: Map<string, Share> = new Map();
  /**
   * Scopes with responses, by the power of 2 of what they use. Within a level they count as equal, so a scope that grows
   * rarely moves, and the largest is found without a search.
   */
  private readonly levels: Set<Share>[] = [];
  /** The least that an entry counts, so that a scope of many small entries counts as much as one of a few large ones. */
  private readonly minWeight: number;

  constructor(minWeight: number) {
    this.minWeight = minWeight;
  }

  set(name: string, scope: string, slot: Slot): void {
    this.delete(name);
    let share = this.shares.get(scope);
    if (!share) {
      share = {
        scope: copyKey(scope),
        responses: new Set(),
        entries: 0,
        claims: 0,
        claimBytes: 0,
        weight: 0,
        level: 0,
      };
      this.shares.set(share.scope, share);
    }
    const kept = copyKey(name);
    this.slots.set(kept, { ...slot, share });
    if (slot.entry.kind === "response") share.responses.add(kept);
    this.count(share, slot, 1);
  }

  delete(name: string): void {
    const slot = this.slots.get(name);
    if (!slot) return;
    this.slots.delete(name);
    slot.share.responses.delete(name);
    this.count(slot.share, slot, -1);
  }

  /**
   * Deletes the oldest response of the scope that uses most, and returns that scope. Returns `undefined` if there is none,
   * or if `scope` uses most and has no response: it must not evict those of others.
   */
  evict(scope?: string): string | undefined {
    const asking = scope === undefined ? undefined : this.shares.get(scope);
    for (let level = this.levels.length - 1; level >= 0; level--) {
      const [largest] = asking?.level === level ? [asking] : (this.levels[level] as Set<Share>);
      if (!largest) continue;
      const [oldest] = largest.responses;
      if (oldest === undefined) return undefined;
      this.delete(oldest);
      return largest.scope;
    }
    return undefined;
  }

  /** Whether the requests in progress of a scope use more than half of a store. They are never evicted. */
  hasHalfInProgress(scope: string, maxEntries: number, maxBytes: number): boolean {
    const { claims, claimBytes } = this.shares.get(scope) ?? { claims: 0, claimBytes: 0 };
    return 2 * claims > maxEntries || 2 * claimBytes > maxBytes;
  }

  private count(share: Share, { entry, bytes }: Slot, sign: 1 | -1): void {
    this.bytes += sign * bytes;
    if (entry.kind === "claim") {
      this.claimBytes += sign * bytes;
      share.claimBytes += sign * bytes;
      share.claims += sign;
    }
    share.entries += sign;
    share.weight += sign * Math.max(bytes, this.minWeight);
    if (share.entries === 0) this.shares.delete(share.scope);
    const level = Math.floor(Math.log2(Math.max(1, share.weight)));
    if (level === share.level && this.levels[level]?.has(share) === share.responses.size > 0) return;
    this.levels[share.level]?.delete(share);
    share.level = level;
    while (this.levels.length <= level) this.levels.push(new Set());
    if (share.responses.size > 0) this.levels[level]?.add(share);
  }
}
