/** A histogram with fixed buckets: how long remote decisions take. */

/** Upper bounds of the buckets, in seconds. Decisions over Redis take 0.3 to 2 ms, and the deadline is 250 ms by default. */
export const DURATION_BOUNDS: readonly number[] = [
  0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];

/** Counts durations. */
export class Histogram {
  /** The sum of all durations, in seconds. */
  sum = 0;
  count = 0;
  /** The number of durations in each bucket, and of those above the last bound. Not cumulative. */
  readonly buckets: Float64Array = new Float64Array(DURATION_BOUNDS.length + 1);

  record(seconds: number): void {
    let i = 0;
    while (i < DURATION_BOUNDS.length && seconds > (DURATION_BOUNDS[i] as number)) i++;
    this.buckets[i] = (this.buckets[i] as number) + 1;
    this.sum += seconds;
    this.count++;
  }

  /** The counts of durations up to each bound. */
  cumulative(): number[] {
    let total = 0;
    return DURATION_BOUNDS.map((_, i) => {
      total += this.buckets[i] as number;
      return total;
    });
  }
}
