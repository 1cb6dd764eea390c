/** Sums per interval of time, in rings whose oldest interval is overwritten. */

/** Series that share their intervals. Times are monotonic, in ms. */
export class TimeSeries {
  readonly binMs: number;
  readonly bins: number;
  private readonly series: Set<Float32Array> = new Set();
  /** Number of the current interval since time 0. */
  private interval: number;

  constructor(bins: number, binMs: number, now: number) {
    this.bins = bins;
    this.binMs = binMs;
    this.interval = Math.floor(now / binMs);
  }

  /** Adds `columns` series, as one array: a typed array costs about 300 bytes besides its numbers. */
  create(columns: number): Float32Array {
    const series = new Float32Array(columns * this.bins);
    this.series.add(series);
    return series;
  }

  /** Removes what `create` has returned. */
  remove(series: Float32Array): void {
    this.series.delete(series);
  }

  /** Starts the interval of `now`. Intervals that were skipped are 0. */
  advance(now: number): void {
    const interval = Math.floor(now / this.binMs);
    const started = Math.min(this.bins, interval - this.interval);
    for (let i = 0; i < started; i++) {
      const bin = (interval - i) % this.bins;
      for (const series of this.series) for (let at = bin; at < series.length; at += this.bins) series[at] = 0;
    }
    this.interval = Math.max(this.interval, interval);
  }

  /** Adds an amount to the current interval. */
  add(series: Float32Array, column: number, amount: number): void {
    const at = column * this.bins + (this.interval % this.bins);
    series[at] = (series[at] as number) + amount;
  }

  /** The sums of all intervals, oldest first. The last one is not complete. */
  read(series: Float32Array, column: number): number[] {
    const first = this.interval + 1;
    return Array.from(
      { length: this.bins },
      (_, i) => series[column * this.bins + ((first + i) % this.bins)] as number,
    );
  }

  /** The sum of all intervals. */
  total(series: Float32Array, column: number): number {
    let sum = 0;
    for (let i = 0; i < this.bins; i++) sum += series[column * this.bins + i] as number;
    return sum;
  }
}
