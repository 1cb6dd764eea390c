/** What histograms have counted in the last minutes, and their quantiles. */

/** The recent part of counters that only grow. It covers one to two generations, whose length the caller decides. */
export class RecentCounts {
  private older: readonly number[];
  private newer: readonly number[];

  /** Counts from now on. */
  constructor(counts: ArrayLike<number>) {
    this.older = this.newer = Array.from(counts);
  }

  /** Starts a generation. */
  rotate(counts: ArrayLike<number>): void {
    this.older = this.newer;
    this.newer = Array.from(counts);
  }

  read(counts: ArrayLike<number>): number[] {
    return Array.from(counts, (count, i) => count - (this.older[i] ?? 0));
  }
}

/**
 * A quantile of a histogram, interpolated within its bucket; `undefined` if it is empty. Values above the last bound count
 * as the last bound.
 */
export function quantile(buckets: readonly number[], bounds: readonly number[], share: number): number | undefined {
  const total = buckets.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let before = 0;
  for (const [i, bound] of bounds.entries()) {
    const count = buckets[i] ?? 0;
    if (count > 0 && before + count >= total * share) {
      const start = bounds[i - 1] ?? 0;
      return start + (bound - start) * ((total * share - before) / count);
    }
    before += count;
  }
  return bounds.at(-1);
}
