/**
 * Retries settlements and renewals that did not reach the store. Both are idempotent, so unlike a take they may be sent
 * again. A hold that ends first is charged in full by the store, and the loss is reported.
 */

import { monotonicMs } from "../base/clock.ts";
import type { SluiceError } from "../base/errors.ts";
import { shared } from "../base/shared-state.ts";
import type { Act, PartCharge } from "../core/apply.ts";
import type { Decision } from "../core/decision.ts";
import { originOf, type Store } from "../core/store.ts";

/** Maximum number of waiting calls per store. The oldest one is lost first. */
const MAX_ENTRIES = 1000;
/** Delays between retries, in ms. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 5000;

/** Sends a waiting call. If the store fails, it waits on. */
const RETRY: Act = { frees: true, without: () => [] };

/** A settlement or renewal that waits for the store. */
export interface PendingSettlement {
  readonly charge: PartCharge;
  /** When the hold ends, in monotonic ms. */
  readonly endsAt: number;
  readonly error: SluiceError;
  /** Called if the hold ends first. */
  onLost(error: SluiceError): void;
  /** Called with the decision if the store has applied it. */
  onApplied?(decision: Decision): void;
}

/** The calls that wait for one store. */
export class SettlementQueue {
  private readonly entries: Map<string, PendingSettlement> = new Map();
  private delayMs = FIRST_DELAY_MS;
  private timer: unknown;

  get size(): number {
    return this.entries.size;
  }

  /** Adds a call. It replaces an earlier one about the same hold. */
  add(entry: PendingSettlement): void {
    const id = holdKey(entry.charge);
    this.entries.delete(id);
    this.entries.set(id, entry);
    const [oldest] = this.entries;
    if (oldest && this.entries.size > MAX_ENTRIES) {
      this.entries.delete(oldest[0]);
      oldest[1].onLost(oldest[1].error);
    }
    this.schedule();
  }

  /** Drops the waiting call about a hold: a newer one is sent. */
  forget(charge: PartCharge): void {
    if (this.entries.size > 0) this.entries.delete(holdKey(charge));
  }

  private schedule(): void {
    if (this.timer !== undefined || this.entries.size === 0) return;
    this.timer = setTimeout(() => void this.retry(), this.delayMs);
    // Waiting settlements don't keep the process alive: the store charges the held amount when the hold ends.
    (this.timer as { unref?(): void }).unref?.();
  }

  private async retry(): Promise<void> {
    const results = await Promise.all([...this.entries].map(([id, entry]) => this.retryOne(id, entry)));
    this.delayMs = results.includes(true) ? FIRST_DELAY_MS : Math.min(MAX_DELAY_MS, 2 * this.delayMs);
    this.timer = undefined;
    this.schedule();
  }

  /** Sends a waiting call again, and returns whether the store has replied. */
  private async retryOne(id: string, entry: PendingSettlement): Promise<boolean> {
    const { charge, endsAt } = entry;
    const now = monotonicMs();
    const isCurrent = () => this.entries.get(id) === entry;
    if (now >= endsAt) {
      this.entries.delete(id);
      entry.onLost(entry.error);
      return false;
    }
    try {
      const [reply] = await charge.engine.apply([[charge]], RETRY);
      const decision = reply?.[0];
      if (!decision) return false;
      if (isCurrent() && decision.allowed) entry.onApplied?.(decision);
    } catch {
      // The store rejects the call whenever it is sent, for example after it was disposed of.
      if (isCurrent()) entry.onLost(entry.error);
    }
    if (isCurrent()) this.entries.delete(id);
    return true;
  }
}

const queues = /* @__PURE__ */ shared("settlementQueues", () => new WeakMap<object, SettlementQueue>());

/** The queue of a store. Stores with the same origin share it. */
export function queueOf(store: Store): SettlementQueue {
  const origin = originOf(store);
  let queue = queues.get(origin);
  if (!queue) queues.set(origin, (queue = new SettlementQueue()));
  return queue;
}

function holdKey({ policy, key, hold }: PartCharge): string {
  return `${policy.id}\0${hold?.id}\0${key}`;
}
