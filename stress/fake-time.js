/** A fake time for a whole process, so that a seed brings back a whole run. */
import { fakeClock } from "../dist/testing.js";

/** The time of everything here, and the timers that wait for it. */
export const clock = fakeClock();
const timers = new Map();

/** Puts timers and `performance.now` on that time. Returns a function that puts them back. */
export function fakeTimers() {
  const { setTimeout, clearTimeout } = globalThis;
  const realNow = performance.now;
  const begin = clock.now();
  let last = 0;
  performance.now = () => clock.now() - begin;
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

/** Time goes on, and each timer runs at its own. */
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
