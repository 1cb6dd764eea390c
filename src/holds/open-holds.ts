/** Renews holds while their work is open: of requests, handlers and connections. */
import { monotonicMs } from "../base/clock.ts";
import { type Hold, MAX_HOLD_MS } from "./hold-options.ts";

/** Renewals within the duration of a hold: two may fail before it ends. */
const RENEWALS_PER_HOLD = 3;

/** The holds of work that has not ended, and one timer that renews them all. */
export class OpenHolds {
  private readonly openedAt: Map<Hold, number> = new Map();
  private timer: ReturnType<typeof setInterval> | undefined;
  private intervalMs = Number.POSITIVE_INFINITY;

  /** Renews a hold until it is removed. */
  add(hold: Hold): void {
    this.openedAt.set(hold, monotonicMs());
    const intervalMs = Math.max(1, Math.floor(hold.forMs / RENEWALS_PER_HOLD));
    if (intervalMs >= this.intervalMs) return;
    this.stop();
    this.intervalMs = intervalMs;
    this.timer = setInterval(() => this.renew(), intervalMs);
    (this.timer as { unref?(): void }).unref?.();
  }

  delete(hold: Hold): void {
    this.openedAt.delete(hold);
    if (this.openedAt.size === 0) this.stop();
  }

  private renew(): void {
    const now = monotonicMs();
    for (const [hold, openedAt] of this.openedAt) {
      // Work whose end was never seen must not hold for ever.
      if (now - openedAt > MAX_HOLD_MS) this.delete(hold);
      // A failed renewal is retried in the background, and `hold-lost` reports one that fails until the end.
      else hold.renew().catch(() => {});
    }
  }

  private stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.intervalMs = Number.POSITIVE_INFINITY;
  }
}
