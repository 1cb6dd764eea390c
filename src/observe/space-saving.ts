/**
 * Space-Saving: counts the most frequent pairs of a stream with a fixed number of counters.
 *
 * A pair without a counter takes over the smallest one, whose count becomes its error. With n additions and m counters,
 * every pair that occurred more than n/m times has a counter, and no error exceeds n/m.
 * Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams (2005).
 */
import { copyKey } from "../base/copy-key.ts";

/** One counter. The pair occurred at least `count - error` and at most `count` times. */
export interface Counter {
  readonly rule: string;
  readonly key: string;
  readonly count: number;
  readonly error: number;
  /** When the pair got the counter, in epoch ms. */
  readonly since: number;
}

/**
 * Counters in descending order of their counts. Counters with equal counts are a run, and each run knows its first
 * position: an increment swaps the counter there and moves the start of the run, so `add` takes constant time.
 */
export class SpaceSaving {
  private readonly capacity: number;
  private size = 0;
  /** Counter by rule and key. Two levels, because joining both texts would hash a new string on each call. */
  private readonly index: Map<string, Map<string, number>> = new Map();
  private readonly rules: string[] = [];
  private readonly keys: string[] = [];
  private readonly counts: Float64Array;
  private readonly errors: Float64Array;
  private readonly since: Float64Array;
  /** Counter by position, and position by counter. */
  private readonly order: Int32Array;
  private readonly positions: Int32Array;
  /** Run by counter, first position by run, and the runs that are not in use. */
  private readonly runs: Int32Array;
  private readonly starts: Int32Array;
  private readonly freeRuns: number[];

  constructor(capacity: number) {
    this.capacity = capacity;
    this.counts = new Float64Array(capacity);
    this.errors = new Float64Array(capacity);
    this.since = new Float64Array(capacity);
    this.order = new Int32Array(capacity);
    this.positions = new Int32Array(capacity);
    this.runs = new Int32Array(capacity);
    this.starts = new Int32Array(capacity);
    this.freeRuns = Array.from({ length: capacity }, (_, run) => run);
  }

  /** Counts one occurrence. */
  add(rule: string, key: string, now: number): void {
    const counter = this.index.get(rule)?.get(key);
    if (counter !== undefined) this.increment(counter);
    else if (this.size < this.capacity) this.append(rule, key, now);
    else this.replaceSmallest(rule, key, now);
  }

  /** The counter of a pair, if it has one. */
  get(rule: string, key: string): Counter | undefined {
    const counter = this.index.get(rule)?.get(key);
    return counter === undefined ? undefined : this.counter(counter);
  }

  /** All counters, highest count first. */
  counters(): Counter[] {
    return Array.from(this.order.subarray(0, this.size), (counter) => this.counter(counter));
  }

  /** How often a pair without a counter may have occurred. */
  get maxUncounted(): number {
    return this.size < this.capacity ? 0 : (this.counts[this.order[this.size - 1] as number] as number);
  }

  private counter(counter: number): Counter {
    return {
      rule: this.rules[counter] as string,
      key: this.keys[counter] as string,
      count: this.counts[counter] as number,
      error: this.errors[counter] as number,
      since: this.since[counter] as number,
    };
  }

  private append(rule: string, key: string, now: number): void {
    const counter = this.size;
    this.order[counter] = counter;
    this.positions[counter] = counter;
    this.counts[counter] = 1;
    const above = counter > 0 ? (this.order[counter - 1] as number) : undefined;
    this.runs[counter] =
      above !== undefined && this.counts[above] === 1 ? (this.runs[above] as number) : this.newRun(counter);
    this.size++;
    this.assign(counter, rule, key, now);
  }

  private replaceSmallest(rule: string, key: string, now: number): void {
    const counter = this.order[this.size - 1] as number;
    const oldRule = this.rules[counter] as string;
    const oldKeys = this.index.get(oldRule) as Map<string, number>;
    oldKeys.delete(this.keys[counter] as string);
    if (oldKeys.size === 0) this.index.delete(oldRule);
    this.errors[counter] = this.counts[counter] as number;
    this.assign(counter, rule, key, now);
    this.increment(counter);
  }

  private assign(counter: number, rule: string, key: string, now: number): void {
    const kept = copyKey(key);
    const keys = this.index.get(rule);
    if (keys) keys.set(kept, counter);
    else this.index.set(rule, new Map([[kept, counter]]));
    this.rules[counter] = rule;
    this.keys[counter] = kept;
    this.since[counter] = now;
  }

  private increment(counter: number): void {
    const { order, positions, runs, starts, counts } = this;
    const run = runs[counter] as number;
    const start = starts[run] as number;
    const position = positions[counter] as number;
    if (position !== start) {
      const first = order[start] as number;
      order[position] = first;
      positions[first] = position;
      order[start] = counter;
      positions[counter] = start;
    }
    const count = (counts[counter] as number) + 1;
    counts[counter] = count;
    const isAlone = start + 1 >= this.size || runs[order[start + 1] as number] !== run;
    if (!isAlone) starts[run] = start + 1;
    const above = start > 0 ? (order[start - 1] as number) : undefined;
    if (above !== undefined && counts[above] === count) {
      runs[counter] = runs[above] as number;
      if (isAlone) this.freeRuns.push(run);
    } else if (!isAlone) {
      runs[counter] = this.newRun(start);
    }
  }

  private newRun(start: number): number {
    const run = this.freeRuns.pop() as number;
    this.starts[run] = start;
    return run;
  }
}
