/** A clock that moves only when a test advances it. */
import type { Clock } from "../base/clock.ts";

/** A clock for `memoryStore({ clock })` that a test controls. */
export interface FakeClock extends Clock {
  /** Moves the clock forward by `ms` milliseconds, or back if negative. */
  advance(ms: number): void;
}

/** Creates a clock that moves only when `advance` is called. `start` is a Unix time in ms. Default: an instant in January 2027. */
export function fakeClock(start = 1_800_000_000_000): FakeClock {
  let now = start;
  return {
    now: () => now,
    advance(ms) {
      now += ms;
    },
  };
}
