/** Seeded random numbers for plain Node, the same sequence as `src/testing/random.ts`. */

/**
 * Mulberry32: small, and good enough to choose test cases.
 * @param {number} seed
 */
export function randomFrom(seed) {
  let state = seed | 0;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  /** A whole number from `least` to `most`. */
  const whole = (/** @type {number} */ least, /** @type {number} */ most) =>
    least + Math.floor(next() * (most - least + 1));
  return {
    whole,
    /** True once in `times` calls on average. */
    once: (/** @type {number} */ times) => next() * times < 1,
    /** A random element. */
    pick: (/** @type {readonly any[]} */ list) => list[whole(0, list.length - 1)],
  };
}

/** The seed in an environment variable, or a random one. */
export function seedOf(/** @type {string} */ variable) {
  return Number(process.env[variable] ?? Math.floor(Math.random() * 2 ** 31));
}
