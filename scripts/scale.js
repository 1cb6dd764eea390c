/** The length of random tests. `SLUICE_SCALE=10` makes all of them ten times as long, whatever their default. */

/** The factor, by default 1. */
export function scale(fallback = 1) {
  const text = process.env.SLUICE_SCALE;
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!(value > 0 && value < Number.POSITIVE_INFINITY)) {
    throw new Error(`SLUICE_SCALE must be a number above 0, but received ${text}`);
  }
  return value;
}

/** A length multiplied by SLUICE_SCALE, at least `least`. */
export function scaled(/** @type {number} */ length, least = 1) {
  return Math.max(least, Math.round(length * scale()));
}

/**
 * How often a kind of step must occur in a random test: a walk that never denies proves little. Short walks may miss rare
 * kinds, so the minimum applies to full ones, which CI runs.
 */
export function leastCount(/** @type {number} */ count) {
  return scale() < 1 ? -1 : count;
}
