/** Where time comes from. The only place that asks the machine for the hour. */
import { optionError } from "./errors.ts";

/** A source of time, given to a store when it is built and never to a call. */
export interface Clock {
  /** Milliseconds since the epoch. Fractions are floored. */
  now(): number;
}

/** Milliseconds that only ever pass, for measuring how long something took. Unrelated to the hour. */
export function monotonicMs(): number {
  return performance.now();
}

/**
 * Milliseconds since the epoch as the machine has them, also when it sets its clock back: for headers that tell an
 * hour, and for stores whose state outlives the process, and so any clock of its own.
 */
export function wallClockMs(): number {
  return Date.now();
}

/** Past this instant a state could leave the exact integers. It is in the year 144 683. */
const END_OF_TIME = 2 ** 52;

/**
 * The system's time, except that it never runs backwards: after a backward step it goes on from
 * where it was. Standing still until the system catches up would lock keys out for that long.
 */
export function systemClock(): Clock {
  // The last reading, and how far this clock is ahead of the system's. An array of doubles, because a
  // variable would be a new object on the heap with every millisecond.
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

/** A clock whose readings are whole milliseconds, or an error that leaves every bucket as it was. */
export function checkedClock(clock: Clock): Clock {
  return {
    now() {
      const now = Math.floor(clock.now());
      if (now >= 0 && now <= END_OF_TIME) return now;
      throw optionError("invalid-clock", "clock.now()", "milliseconds since the epoch, from 0 to 2^52", now);
    },
  };
}
