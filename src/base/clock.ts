/** The only module that reads the system clock. */
import { optionError } from "./errors.ts";

/** A source of time. It is passed to a store, never to a call. */
export interface Clock {
  /** Milliseconds since the epoch. Fractions are rounded down. */
  now(): number;
}

/** Monotonic milliseconds, for measuring durations. Unrelated to the wall clock. */
export function monotonicMs(): number {
  return performance.now();
}

/**
 * Milliseconds since the epoch, which may step back: for headers that contain a time, and for stores whose state outlives
 * the process.
 */
export function wallClockMs(): number {
  return Date.now();
}

/** An instant as text: `2027-01-02T03:04:05.678Z`. */
export function isoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** The latest instant, in the year 144 683. States of later ones could exceed the exact integers. */
const MAX_TIME = 2 ** 52;

/**
 * The system clock, made monotonic: after a backward step it continues from where it was. If it stood still until the
 * system catches up, keys would be blocked for that long.
 */
export function systemClock(): Clock {
  // The last reading, and how far this clock is ahead of the system's. An array of doubles, because a closed-over number
  // would be a new heap object every millisecond.
  const state = new Float64Array(2);
  const steppedBack = (now: number): number => {
    state[1] = (state[1] as number) + (state[0] as number) - now;
    return state[0] as number;
  };
  return {
    now() {
      const now = Date.now() + (state[1] as number);
      return now >= (state[0] as number) ? (state[0] = now) : steppedBack(now);
    },
  };
}

/** Checks every reading of a clock. An invalid one throws before any bucket is changed. */
export function checkedClock(clock: Clock): Clock {
  return {
    now() {
      const now = Math.floor(clock.now());
      if (now >= 0 && now <= MAX_TIME) return now;
      throw optionError(
        "invalid-clock",
        "clock.now()",
        "a number of milliseconds since the epoch, from 0 to 2^52",
        now,
      );
    },
  };
}
