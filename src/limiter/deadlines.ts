/** Calls that must be settled by a certain time. One coarse timer for all of them, and none when there are none. */
import { elapsed } from "../core/clock.ts";

/** A call under way. */
export interface Timed {
  /** When it is too late, in elapsed milliseconds. */
  readonly due: number;
  /** Whether it has been settled, in time or not. */
  readonly over: boolean;
  expire(): void;
}

/** How late a deadline may be noticed: far less than anybody waits, and cheap at any rate of calls. */
const GRAIN_MS = 10;

/** The deadlines of one store. */
export class Deadlines {
  private pending: Timed[] = [];
  private armed = false;

  add(call: Timed): void {
    this.pending.push(call);
    if (this.armed) return;
    this.armed = true;
    this.arm();
  }

  private arm(): void {
    const timer: unknown = setTimeout(() => this.look(), GRAIN_MS);
    // Where timers can hold a process open, this one must not.
    (timer as { unref?(): void }).unref?.();
  }

  private look(): void {
    const now = elapsed();
    this.pending = this.pending.filter((call) => !call.over);
    for (const call of this.pending) if (call.due <= now) call.expire();
    this.armed = this.pending.length > 0;
    if (this.armed) this.arm();
  }
}
