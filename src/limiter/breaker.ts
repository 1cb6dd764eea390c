/** Stops asking a store that fails: after some faults in a row it is left alone for a while, then tried by one call. */
import type { SluiceError } from "../core/errors.ts";

/** So many faults in a row open it. */
const MOST_FAULTS = 5;
/** How long it then stays open before a call may try. */
const OPEN_MS = 1000;

/** Hears when the store goes down and when it is back. */
export interface Watcher {
  down(error: SluiceError): void;
  up(downMs: number): void;
}

/** One per store. Times are elapsed milliseconds, given by the caller. */
export class Breaker {
  /** Who is told of transitions. */
  readonly watchers: Set<Watcher> = new Set();
  private faults = 0;
  /** When it opened, or `undefined` while it is closed. */
  private openedAt: number | undefined;
  private tryAt = 0;

  /** Whether the store is left alone, but for one call that tries. */
  get open(): boolean {
    return this.openedAt !== undefined;
  }

  /** Whether a call may go to the store now. While it is open, one may, once in a while. */
  admits(now: number): boolean {
    if (this.openedAt === undefined) return true;
    if (now < this.tryAt) return false;
    // However long this one waits for its answer, others may try after the same time.
    this.tryAt = now + OPEN_MS;
    return true;
  }

  /** Milliseconds until the store may be tried again, at least 1. */
  retryAfterMs(now: number): number {
    return this.openedAt === undefined ? 1 : Math.max(1, Math.ceil(this.tryAt - now));
  }

  passed(now: number): void {
    this.faults = 0;
    if (this.openedAt === undefined) return;
    const downMs = Math.round(now - this.openedAt);
    this.openedAt = undefined;
    for (const watcher of this.watchers) watcher.up(downMs);
  }

  /** Notes a fault; `tried` tells whether the call was the one that tried. */
  failed(now: number, error: SluiceError, tried: boolean): void {
    this.faults++;
    if (this.openedAt !== undefined) {
      // What had been asked before it opened says nothing new.
      if (tried) this.tryAt = now + OPEN_MS;
    } else if (this.faults >= MOST_FAULTS) {
      this.openedAt = now;
      this.tryAt = now + OPEN_MS;
      for (const watcher of this.watchers) watcher.down(error);
    }
  }
}
