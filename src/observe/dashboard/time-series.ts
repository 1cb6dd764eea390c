/** Sums per interval of time, in rings whose oldest interval is overwritten. */

/** Series in one array: a typed array costs about 300 bytes besides its numbers. */
const CHUNK_SERIES = 64;

/** Series that share their intervals. Times are monotonic, in ms. */
export class TimeSeries {
  readonly binMs: number;
  readonly bins: number;
  private readonly chunks: Float32Array[] = [];
  private count = 0;
  /** Number of the current interval since time 0. */
  private interval: number;

  constructor(bins: number, binMs: number, now: number) {
    this.bins = bins;
    this.binMs = binMs;
    this.interval = Math.floor(now / binMs);
  }

  /** Adds series that are 0, and returns the number of the first one. */
  create(count: number): number {
    const first = this.count;
    this.count += count;
    while (this.chunks.length * CHUNK_SERIES < this.count) {
      this.chunks.push(new Float32Array(CHUNK_SERIES * this.bins));
    }
    return first;
  }

  /** Removes all series. */
  clear(): void {
    this.count = 0;
    this.chunks.length = 0;
  }

  /** Starts the interval of `now`. Intervals that were skipped are 0. */
  advance(now: number): void {
    const interval = Math.floor(now / this.binMs);
    const started = Math.min(this.bins, interval - this.interval);
    for (let i = 0; i < started; i++) {
      const bin = (interval - i) % this.bins;
      for (const chunk of this.chunks) for (let at = bin; at < chunk.length; at += this.bins) chunk[at] = 0;
    }
    this.interval = Math.max(this.interval, interval);
  }

  /** Adds an amount to the current interval. */
  add(series: number, amount: number): void {
    const bins = this.binsOf(series);
    const bin = this.interval % this.bins;
    bins[bin] = (bins[bin] as number) + amount;
  }

  /** The sums of all intervals, oldest first. The last one is not complete. */
  read(series: number): number[] {
    const bins = this.binsOf(series);
    const first = this.interval + 1;
    return Array.from({ length: this.bins }, (_, i) => bins[(first + i) % this.bins] as number);
  }

  /** The sum of all intervals. */
  total(series: number): number {
    return this.binsOf(series).reduce((sum, amount) => sum + amount, 0);
  }

  private binsOf(series: number): Float32Array {
    const at = (series % CHUNK_SERIES) * this.bins;
    return (this.chunks[Math.floor(series / CHUNK_SERIES)] as Float32Array).subarray(at, at + this.bins);
  }
}
