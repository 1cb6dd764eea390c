/**
 * Stops asking what fails: after some faults in a row it is left alone for a while, then tried by one call. That is a
 * whole store, or one part of it where parts fail by themselves.
 */
import type { SluiceError } from "../core/errors.ts";

/** So many faults in a row open it. */
const MOST_FAULTS = 5;
/** How long it then stays open before a call may try. */
const OPEN_MS = 1000;
/** So many parts with faults are known at once. */
const MOST_PARTS = 1000;

/** Hears when the store goes down and when it is back. */
export interface Watcher {
  down(error: SluiceError): void;
  up(downMs: number): void;
}

/** What a store is a part of: itself, or what `partOf` of it says. */
export type Part = number | string;

/** What is known of a part that has failed lately. Times are elapsed milliseconds. */
interface Trouble {
  faults: number;
  /** The last of them. */
  error: SluiceError;
  /** Whether it is left alone, but for one call that tries. */
  open: boolean;
  tryAt: number;
}

/** One per store. Times are elapsed milliseconds, given by the caller. */
export class Breaker {
  /** Who is told of transitions: when the first part goes down, and when the last one is back. */
  readonly watchers: Set<Watcher> = new Set();
  private readonly troubles: Map<Part, Trouble> = new Map();
  /** How many parts are left alone, and since when there are any. */
  private opened = 0;
  private openedAt = 0;

  /** Whether a part is left alone. */
  isOpen(part: Part): boolean {
    return this.troubles.get(part)?.open === true;
  }

  /** Why a part that is open was not asked; `undefined` when a call may go to it. While it is open, one may, once in a while. */
  refusal(part: Part, now: number): SluiceError | undefined {
    const trouble = this.troubles.get(part);
    if (!trouble?.open) return undefined;
    if (now < trouble.tryAt) return trouble.error;
    // However long this one waits for its answer, others may try after the same time.
    trouble.tryAt = now + OPEN_MS;
    return undefined;
  }

  /** Milliseconds until a part may be tried again, at least 1. */
  retryAfterMs(part: Part, now: number): number {
    const trouble = this.troubles.get(part);
    return trouble?.open ? Math.max(1, Math.ceil(trouble.tryAt - now)) : 1;
  }

  passed(part: Part, now: number): void {
    if (this.troubles.size > 0) this.forget(part, now);
  }

  /** Notes a fault; `tried` tells whether the call was the one that tried. What fails many calls at once is one fault. */
  failed(part: Part, now: number, error: SluiceError, tried: boolean): void {
    let trouble = this.troubles.get(part);
    if (!trouble) this.troubles.set(part, (trouble = { faults: 0, error, open: false, tryAt: 0 }));
    if (trouble.faults === 0 || originOf(error) !== originOf(trouble.error)) trouble.faults++;
    trouble.error = error;
    if (trouble.open) {
      // What had been asked before it opened says nothing new.
      if (tried) trouble.tryAt = now + OPEN_MS;
    } else if (trouble.faults >= MOST_FAULTS) {
      trouble.open = true;
      trouble.tryAt = now + OPEN_MS;
      if (++this.opened > 1) return;
      this.openedAt = now;
      for (const watcher of this.watchers) watcher.down(error);
    } else if (this.troubles.size > MOST_PARTS) {
      this.forget(this.troubles.keys().next().value as Part, now);
    }
  }

  private forget(part: Part, now: number): void {
    const open = this.isOpen(part);
    this.troubles.delete(part);
    if (!open || --this.opened > 0) return;
    for (const watcher of this.watchers) watcher.up(Math.round(now - this.openedAt));
  }
}

/** What a client threw, where there is one: a call for many fails all of them with the same. */
function originOf(error: SluiceError): unknown {
  return error.cause ?? error;
}
