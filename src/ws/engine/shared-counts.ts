/**
 * Counts the open connections of all processes by key. Each process holds one lease per key on a concurrency limiter. Its
 * amount is the number of connections that are open here; it is renewed while one is.
 */

import { SluiceError } from "../../base/errors.ts";
import type { DecisionSource } from "../../core/decision.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { hold } from "../../holds/hold.ts";
import type { Hold } from "../../holds/hold-options.ts";
import { OpenHolds } from "../../holds/open-holds.ts";
import type { AcquireResult } from "./open-counts.ts";

/** The connections of one key in this process. */
interface LocalCount {
  /** Connections that are open, or whose upgrade is being decided. */
  open: number;
  hold: Hold | undefined;
  /** Where the lease is, if not in the store. */
  source: DecisionSource | undefined;
  /** Changes that have not ended. */
  pending: number;
  /** The last change of the lease. Changes are sent one at a time, because each sets an absolute amount. */
  last: Promise<unknown>;
}

/** Open connections by key, counted by a concurrency limiter. */
export class SharedCounts {
  private readonly limiter: RateLimiter;
  /** The id of this process's leases. */
  private readonly id: string = crypto.randomUUID();
  private readonly counts: Map<string, LocalCount> = new Map();
  private readonly holds: OpenHolds = new OpenHolds();

  constructor(option: string, limiter: RateLimiter) {
    this.limiter = limiter;
    if (limiter.getPolicies === undefined && limiter.getPolicy().algorithm === "concurrency") return;
    const expected = "a number, or a limiter with one concurrency policy, such as concurrency(20)";
    throw new SluiceError("invalid-limiter", `${option} must be ${expected}.`, { option, expected, received: limiter });
  }

  /** The limit of the policy. */
  get limit(): number {
    return this.limiter.getPolicy().limit;
  }

  /** Number of keys with open connections in this process. */
  get size(): number {
    return this.counts.size;
  }

  /** Counts one more connection of `key`, unless `limit` connections are open in all processes. */
  acquire(key: string): Promise<AcquireResult> {
    let count = this.counts.get(key);
    if (!count) {
      count = { open: 0, hold: undefined, source: undefined, pending: 0, last: Promise.resolve() };
      this.counts.set(key, count);
    }
    const local = count;
    return this.inTurn(key, local, async () => {
      if (!(await this.resize(key, local, local.open + 1))) return { observed: this.limit + 1 };
      let isHeld = true;
      const release = (): void => {
        if (!isHeld) return;
        isHeld = false;
        // A failed change is retried in the background, or ends with the lease.
        this.inTurn(key, local, () => this.resize(key, local, local.open - 1)).catch(() => {});
      };
      return { release };
    });
  }

  /** Sets the number of open connections of a key. Returns whether that is within the limit. */
  private async resize(key: string, local: LocalCount, open: number): Promise<boolean> {
    const { id, limiter, holds } = this;
    const before = local.hold;
    if (open === 0 && before) {
      local.open = 0;
      local.hold = undefined;
      holds.delete(before);
      await before.cancel();
      return true;
    }
    if (open < local.open) {
      // Granted whatever others hold, so it counts even if the store can't be reached.
      local.open = open;
      await before?.renew({ amount: open });
      return true;
    }
    if (before && local.source === undefined) {
      const { allowed } = await before.renew({ amount: open });
      if (allowed) local.open = open;
      return allowed;
    }
    // Also in place of a lease that was granted without the store: it may be available again.
    const decision = await hold(limiter, key, open, { id });
    if (!decision.allowed) return false;
    local.open = open;
    local.hold = decision.hold;
    if (before) {
      holds.delete(before);
      // In the same bucket, it was replaced.
      if (decision.source !== local.source) await before.cancel();
    }
    local.source = decision.source;
    holds.add(decision.hold);
    return true;
  }

  /** Runs a change after the earlier ones of the same key, and forgets the key if nothing is open or waiting then. */
  private inTurn<T>(key: string, local: LocalCount, change: () => Promise<T>): Promise<T> {
    local.pending++;
    const result = local.last.then(change).finally(() => {
      local.pending--;
      // A later change would use a count of its own, and both would set the amount of the same lease.
      if (local.pending === 0 && local.open === 0 && !local.hold) this.counts.delete(key);
    });
    local.last = result.catch(() => {});
    return result;
  }
}
