/** Calls that must be settled by a certain time. One coarse timer for all of them, and none when there are none. */
import { elapsed } from "../core/clock.ts";

/** A call under way. */
export interface Timed {
  /** When it is too late, in elapsed milliseconds. */
  readonly due: number;
  /** Where it stands in the list. */
  place: number;
  /** Its own timer, where it has one. */
  timer?: unknown;
  expire(): void;
}

/** How late a deadline may be noticed: far less than anybody waits, and cheap at any rate of calls. */
const GRAIN_MS = 10;

/** On Cloudflare Workers a timer ends with the request that set it: there every call has one of its own. */
const ownTimers: boolean =
  (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent === "Cloudflare-Workers";

/** After a stall, replies that lie in the socket are read first: they are not late, we are. */
function afterReading(run: () => void): void {
  const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => unknown };
  if (setImmediate) setImmediate(run);
  else run();
}

/** The deadlines of one store. */
export class Deadlines {
  private readonly pending: Timed[] = [];
  private armed = false;

  add(call: Timed): void {
    if (ownTimers) {
      call.timer = setTimeout(() => call.expire(), call.due - elapsed());
      return;
    }
    call.place = this.pending.push(call) - 1;
    if (!this.armed) this.arm();
  }

  /** Forgets a call at once: what is kept until a timer looks at it is dear to collect. */
  remove(call: Timed): void {
    if (ownTimers) {
      clearTimeout(call.timer as number);
      return;
    }
    const last = this.pending.pop() as Timed;
    if (last === call) return;
    this.pending[call.place] = last;
    last.place = call.place;
  }

  private arm(): void {
    this.armed = true;
    const timer: unknown = setTimeout(() => afterReading(() => this.look()), GRAIN_MS);
    // Where timers can hold a process open, this one must not.
    (timer as { unref?(): void }).unref?.();
  }

  private look(): void {
    const now = elapsed();
    for (const call of this.pending.filter(({ due }) => due <= now)) call.expire();
    this.armed = false;
    if (this.pending.length > 0) this.arm();
  }
}
