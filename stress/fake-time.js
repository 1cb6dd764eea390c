/** A fake clock with timers for a whole process: a seed reproduces a whole run. */
import { fakeClock } from "../dist/testing.js";

/** The clock of every limiter and guard in the run. */
export const clock = fakeClock();
const timers = new Map();

/** Makes timers and `performance.now` use the fake clock. Returns a function that restores them. */
export function fakeTimers() {
  const { setTimeout, clearTimeout } = globalThis;
  const realNow = performance.now;
  const startMs = clock.now();
  let last = 0;
  performance.now = () => clock.now() - startMs;
  globalThis.setTimeout = /** @type {any} */ (
    (/** @type {() => void} */ run, ms = 0) => {
      const timer = { at: clock.now() + Math.max(1, ms), run, id: ++last, unref: () => timer };
      timers.set(timer.id, timer);
      return timer;
    }
  );
  globalThis.clearTimeout = /** @type {any} */ ((/** @type {any} */ timer) => timers.delete(timer?.id));
  return () => {
    Object.assign(globalThis, { setTimeout, clearTimeout });
    performance.now = realNow;
    timers.clear();
  };
}

/** Advances the clock and runs each timer at its time. */
export function pass(/** @type {number} */ ms) {
  const end = clock.now() + ms;
  for (;;) {
    let next;
    for (const timer of timers.values()) if (timer.at <= end && !(timer.at >= next?.at)) next = timer;
    if (!next) break;
    clock.advance(Math.max(0, next.at - clock.now()));
    timers.delete(next.id);
    next.run();
  }
  clock.advance(end - clock.now());
}
