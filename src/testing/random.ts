/** Seeded random numbers: a printed seed reproduces a failure. */

/** A seeded source of random numbers. */
export interface Random {
  /** The seed that reproduces the sequence. */
  readonly seed: number;
  /** A whole number from `min` to `max`, both inclusive. */
  whole(min: number, max: number): number;
  /** A random element. */
  pick<T>(list: readonly T[]): T;
}

/** Mulberry32: small, and good enough to choose test cases. */
export function randomFrom(seed: number): Random {
  let state = seed | 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const whole = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));
  return { seed, whole, pick: (list) => list[whole(0, list.length - 1)] as (typeof list)[number] };
}
