/** Time that moves only when a test says so. */
import type { Clock } from "../core/clock.ts";

/** A clock for `memoryStore({ clock })`. */
export interface FakeClock extends Clock {
  /** Moves time on by so many milliseconds; back, when they are negative. */
  advance(ms: number): void;
}

/** A clock that stands still until `advance` moves it. Starts at an ordinary instant of 2027. */
export function fakeClock(start = 1_800_000_000_000): FakeClock {
  let now = start;
  return {
    now: () => now,
    advance(ms) {
      now += ms;
    },
  };
}
