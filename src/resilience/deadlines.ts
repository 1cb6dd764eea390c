/** Calls that must be settled by a certain time. One coarse timer for all of them, and none when there are none. */
import { monotonicMs } from "../core/clock.ts";
import type { SluiceError } from "../core/errors.ts";

/** A call under way. */
export interface Timed {
  /** When it is too late, in elapsed milliseconds. */
  readonly due: number;
  /** Where it stands in the list. */
  place: number;
  /** Those that it shares a timer with, where there is not one for all. */
  tick?: Tick;
  /** Settles it as too late. Calls that expire together may share their error. */
  expire(shared: SharedError): void;
}

/** An error that is made when the first call needs it. */
export interface SharedError {
  error?: SluiceError;
}

/** How late a deadline may be noticed: far less than anybody waits, and cheap at any rate of calls. */
const GRAIN_MS = 10;
/** Calls that expire in one turn of the event loop. 100 000 at once would stall it for a second. */
const MAX_EXPIRED_PER_TURN = 500;

/** Calls of one tick, and so of one request. */
interface Tick {
  readonly calls: Set<Timed>;
  /** When the timer goes off. */
  due: number;
  timer: unknown;
}

/** On Cloudflare Workers a timer ends with the request that set it, and there may be only so many of them. */
const timersPerTick: boolean =
  (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent === "Cloudflare-Workers";

/** After a stall, replies that lie in the socket are read first: they are not late, we are. */
function afterReading(run: () => void): void {
  const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => unknown };
  if (setImmediate) setImmediate(run);
  else run();
}

/** Sets the timer of a tick: at first for the first of its calls, and then for those that are left. */
function setTimer(tick: Tick): void {
  tick.timer = setTimeout(() => {
    const now = monotonicMs();
    const shared: SharedError = {};
    for (const call of [...tick.calls]) if (call.due <= now + 1) call.expire(shared);
    if (tick.calls.size === 0) return;
    tick.due = Number.POSITIVE_INFINITY;
    for (const { due } of tick.calls) tick.due = Math.min(tick.due, due);
    setTimer(tick);
  }, tick.due - monotonicMs());
}

/** The deadlines of one store. */
export class Deadlines {
  private readonly pending: Timed[] = [];
  private armed = false;
  /** The calls of this tick. */
  private tick: Tick | undefined;

  add(call: Timed): void {
    if (timersPerTick) {
      this.addToTick(call);
      return;
    }
    call.place = this.pending.push(call) - 1;
    if (!this.armed) this.arm();
  }

  /** Forgets a call at once: what is kept until a timer looks at it is dear to collect. */
  remove(call: Timed): void {
    if (call.tick) {
      const { calls, timer } = call.tick;
      if (!calls.delete(call) || calls.size > 0) return;
      clearTimeout(timer as number);
      if (this.tick === call.tick) this.tick = undefined;
      return;
    }
    const last = this.pending.pop() as Timed;
    if (last === call) return;
    this.pending[call.place] = last;
    last.place = call.place;
  }

  private addToTick(call: Timed): void {
    // A call that is due before the timer goes off needs one of its own.
    if (!this.tick || call.due < this.tick.due) {
      const tick: Tick = { calls: new Set(), due: call.due, timer: undefined };
      setTimer(tick);
      this.tick = tick;
      void Promise.resolve().then(() => {
        this.tick = undefined;
      });
    }
    call.tick = this.tick;
    this.tick.calls.add(call);
  }

  private arm(): void {
    this.armed = true;
    const timer: unknown = setTimeout(() => afterReading(() => this.look()), GRAIN_MS);
    // Where timers can hold a process open, this one must not.
    (timer as { unref?(): void }).unref?.();
  }

  private look(): void {
    const now = monotonicMs();
    this.expire(
      this.pending.filter(({ due }) => due <= now),
      {},
    );
  }

  /** Expires calls in slices. Replies that are read between two of them still count. */
  private expire(late: readonly Timed[], shared: SharedError, from = 0): void {
    const end = from + MAX_EXPIRED_PER_TURN;
    for (const call of late.slice(from, end)) call.expire(shared);
    if (end < late.length) {
      afterReading(() => this.expire(late, shared, end));
      return;
    }
    this.armed = false;
    if (this.pending.length > 0) this.arm();
  }
}
