/**
 * Stops asking what fails: after some faults in a row it is left alone for a while, then tried by one call. That is a
 * whole store, or one part of it where parts fail by themselves.
 */
import { copyKey } from "../core/copy-key.ts";
import type { SluiceError } from "../core/errors.ts";

/** So many faults in a row open it. */
const MAX_CONSECUTIVE_FAILURES = 5;
/** How long it then stays open before a call may try. */
const OPEN_MS = 1000;
/** So many parts with faults are known at once. */
const MAX_SHARDS_TRACKED = 1000;

/** Hears when the store goes down and when it is back. */
export interface Watcher {
  down(error: SluiceError): void;
  up(downMs: number): void;
}

/** A part of a store, as its `partOf` says, or all of it. */
export type Shard = number | string;

/** What is known of a part that has failed lately. Times are elapsed milliseconds. */
interface ShardHealth {
  faults: number;
  /** The last of them, and when it was. */
  error: SluiceError;
  at: number;
  /** Whether it is left alone, but for one call that tries. */
  open: boolean;
  probeAt: number;
}

/** All of it. It is left alone too when parts fail one after the other and none answers. */
export const ALL_SHARDS = -1;
/** So many faults of any parts, with no answer in between, and it is the whole that is down. */
const MAX_FAILURES_OF_ALL_SHARDS = 25;
/** What fails with the same error within so many milliseconds is one fault: a call that was made for many. */
const ONE_FAULT_MS = 5;
/** A part that nobody has asked for so long is forgotten. */
const FORGET_MS = 60_000;

/** One per store. Times are elapsed milliseconds, given by the caller. */
export class Breaker {
  /** Who is told of transitions: when the first part goes down, and when the last one is back. */
  readonly watchers: Set<Watcher> = new Set();
  private readonly troubles: Map<Shard, ShardHealth> = new Map();
  /** How many parts are left alone, and since when there are any. */
  private opened = 0;
  private openedAt = 0;
  private inRow = 0;

  /** Whether a part is left alone. */
  isOpen(part: Shard): boolean {
    return this.troubles.size > 0 && (this.openAt(part) ?? this.openAt(ALL_SHARDS)) !== undefined;
  }

  /** Why a part that is open was not asked; `undefined` when a call may go to it. While it is open, one may, once in a while. */
  refusal(part: Shard, now: number): SluiceError | undefined {
    if (this.troubles.size === 0) return undefined;
    const open = [this.openAt(ALL_SHARDS), this.openAt(part)].filter((trouble) => trouble !== undefined);
    const held = open.find(({ probeAt }) => now < probeAt);
    if (held) return held.error;
    // However long this one waits for its answer, others may try after the same time.
    for (const trouble of open) trouble.probeAt = now + OPEN_MS;
    return undefined;
  }

  /** Milliseconds until a part may be tried again, at least 1. */
  retryAfterMs(part: Shard, now: number): number {
    const tryAt = Math.max(this.openAt(part)?.probeAt ?? 0, this.openAt(ALL_SHARDS)?.probeAt ?? 0);
    return Math.max(1, Math.ceil(tryAt - now));
  }

  passed(part: Shard, now: number): void {
    this.inRow = 0;
    if (this.troubles.size === 0) return;
    this.forget(ALL_SHARDS, now);
    this.forget(part, now);
    this.forgetOld(now);
  }

  /** Notes a fault; `tried` tells whether the call was the one that tried. */
  failed(part: Shard, now: number, error: SluiceError, tried: boolean): void {
    // One part alone, however often it is tried in vain, is not the whole.
    const counts = !this.openAt(part);
    if (this.note(part, now, error, tried, MAX_CONSECUTIVE_FAILURES) && counts) this.inRow++;
    if (part !== ALL_SHARDS && this.inRow >= MAX_FAILURES_OF_ALL_SHARDS) this.note(ALL_SHARDS, now, error, tried, 1);
    this.forgetOld(now);
    if (this.troubles.size > MAX_SHARDS_TRACKED) this.forget(this.troubles.keys().next().value as Shard, now);
  }

  /** Counts a fault, if it is another one, and opens what has had too many. */
  private note(part: Shard, now: number, error: SluiceError, tried: boolean, most: number): boolean {
    const known = this.troubles.get(part);
    const trouble = known ?? { faults: 0, error, at: Number.NEGATIVE_INFINITY, open: false, probeAt: 0 };
    if (!known) this.troubles.set(typeof part === "string" ? copyKey(part) : part, trouble);
    const isNew = now - trouble.at >= ONE_FAULT_MS || causeOf(error) !== causeOf(trouble.error);
    if (isNew) trouble.faults++;
    trouble.error = error;
    trouble.at = now;
    if (trouble.open) {
      // What had been asked before it opened says nothing new.
      if (tried) trouble.probeAt = now + OPEN_MS;
    } else if (trouble.faults >= most) {
      trouble.open = true;
      trouble.probeAt = now + OPEN_MS;
      if (++this.opened === 1) {
        this.openedAt = now;
        for (const watcher of this.watchers) watcher.down(error);
      }
    }
    return isNew;
  }

  private openAt(part: Shard): ShardHealth | undefined {
    const trouble = this.troubles.get(part);
    return trouble?.open ? trouble : undefined;
  }

  private forgetOld(now: number): void {
    for (const [part, { at }] of this.troubles) {
      // The oldest come first, or nearly so.
      if (now - at < FORGET_MS) return;
      this.forget(part, now);
    }
  }

  private forget(part: Shard, now: number): void {
    const open = this.openAt(part);
    this.troubles.delete(part);
    if (!open || --this.opened > 0) return;
    for (const watcher of this.watchers) watcher.up(Math.round(now - this.openedAt));
  }
}

/** What a client threw, where there is one: a call for many fails all of them with the same. */
function causeOf(error: SluiceError): unknown {
  return error.cause ?? error;
}
