/** Where time comes from. The only place that asks the machine for the hour. */
import { SluiceError } from "./errors.ts";

/** A source of time, given to a store when it is built and never to a call. */
export interface Clock {
  /** Milliseconds since the epoch. Fractions are floored. */
  now(): number;
}

/** Past this instant a state could leave the exact integers. It is in the year 144 683. */
const END_OF_TIME = 2 ** 52;

/**
 * The system's time, except that it never runs backwards: after a backward step it goes on from
 * where it was. Standing still until the system catches up would lock keys out for that long.
 */
export function systemClock(): Clock {
  let last = 0;
  let lead = 0;
  return {
    now() {
      const now = Date.now() + lead;
      if (now < last) lead += last - now;
      // Written only when it changes: most readings of a busy process are of the same millisecond.
      else if (now > last) last = now;
      return last;
    },
  };
}

/** One reading in whole milliseconds, or an error that leaves every bucket as it was. */
export function readClock(clock: Clock): number {
  const now = Math.floor(clock.now());
  return now >= 0 && now <= END_OF_TIME ? now : refuseReading(now);
}

function refuseReading(received: unknown): never {
  const expected = "milliseconds since the epoch, from 0 to 2^52";
  throw new SluiceError("invalid-clock", "clock.now()", expected, received);
}
