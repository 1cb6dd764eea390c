/** Random numbers that a printed seed brings back. */

/** A source of random numbers. */
export interface Random {
  /** The seed it began with. */
  readonly seed: number;
  /** A whole number from `least` to `most`. */
  whole(least: number, most: number): number;
  /** One of the list. */
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
  const whole = (least: number, most: number): number => least + Math.floor(next() * (most - least + 1));
  return { seed, whole, pick: (list) => list[whole(0, list.length - 1)] as (typeof list)[number] };
}
