/** Deadlines of calls in flight: one coarse timer for all calls of a store, and none while there are no calls. */
import { monotonicMs } from "../base/clock.ts";
import type { SluiceError } from "../base/errors.ts";

/** A call in flight. */
export interface Timed {
  /** When it expires, in monotonic milliseconds. */
  readonly due: number;
  /** Its index in the list of calls. */
  place: number;
  /** The calls that it shares a timer with, on runtimes where timers belong to a request. */
  tick?: Tick;
  /** Ends the call. Calls that expire together may share their error. */
  expire(shared: SharedError): void;
}

/** An error that is created when the first call needs it. */
export interface SharedError {
  error?: SluiceError;
}

/** How late a call may expire. Coarse enough to be cheap at any rate of calls. */
const GRAIN_MS = 10;
/** Calls that expire per turn of the event loop. 100 000 at once would stall it for a second. */
const MAX_EXPIRED_PER_TURN = 500;

/** The calls of one tick, and so of one request. */
interface Tick {
  readonly calls: Set<Timed>;
  /** When the timer fires. */
  due: number;
  timer: unknown;
}

/** On Cloudflare Workers a timer ends with the request that set it, and the number of timers is limited. */
export const hasTimersPerRequest: boolean =
  (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent === "Cloudflare-Workers";

/** After an event-loop stall, read buffered replies before expiring calls. */
function afterReading(run: () => void): void {
  const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => unknown };
  if (setImmediate) setImmediate(run);
  else run();
}

/** Sets the timer of a tick for the first of its calls, and again for those that are left. */
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
  private isArmed = false;
  /** The calls of this tick. */
  private tick: Tick | undefined;

  add(call: Timed): void {
    if (hasTimersPerRequest) {
      this.addToTick(call);
      return;
    }
    call.place = this.pending.push(call) - 1;
    if (!this.isArmed) this.arm();
  }

  /** Removes a call that has ended. At once: objects that wait for a timer are expensive to collect. */
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
    // A call that is due before the timer fires needs a timer of its own.
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
    this.isArmed = true;
    const timer: unknown = setTimeout(() => afterReading(() => this.expireDue()), GRAIN_MS);
    // Don't keep the process alive.
    (timer as { unref?(): void }).unref?.();
  }

  private expireDue(): void {
    const now = monotonicMs();
    this.expire(
      this.pending.filter(({ due }) => due <= now),
      {},
    );
  }

  /** Expires calls in slices. Replies that are read between two slices still count. */
  private expire(late: readonly Timed[], shared: SharedError, from = 0): void {
    const end = from + MAX_EXPIRED_PER_TURN;
    for (const call of late.slice(from, end)) call.expire(shared);
    if (end < late.length) {
      afterReading(() => this.expire(late, shared, end));
      return;
    }
    this.isArmed = false;
    if (this.pending.length > 0) this.arm();
  }
}
