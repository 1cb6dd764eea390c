/** Sorted ranges of 32-bit or 128-bit numbers in typed arrays, found by binary search. */
import type { Steps } from "../../base/slices.ts";

/** Ranges that are sorted and don't overlap or touch. A number has `width` words of 32 bits, the highest first. */
export class SortedRanges {
  private readonly width: number;
  private readonly starts: Uint32Array;
  private readonly ends: Uint32Array;

  constructor(width: number, starts: Uint32Array, ends: Uint32Array) {
    this.width = width;
    this.starts = starts;
    this.ends = ends;
  }

  get length(): number {
    return this.starts.length / this.width;
  }

  /** Whether one of the ranges contains the number in `words`. */
  has(words: Uint32Array): boolean {
    let [low, high] = [0, this.length];
    // Finds the first range that starts after the number. Only the one before it can contain the number.
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compare(this.starts, middle, words, 0, this.width) <= 0) low = middle + 1;
      else high = middle;
    }
    return low > 0 && compare(words, 0, this.ends, low - 1, this.width) <= 0;
  }

  /** Whether the ranges contain every number. */
  get isEverything(): boolean {
    return (
      this.length === 1 && this.starts.every((word) => word === 0) && this.ends.every((word) => word === 0xffffffff)
    );
  }
}

/** Items that are sorted or merged between two steps. */
const ITEMS_PER_STEP = 2048;

/** Collects ranges in any order. */
export class RangeBuilder {
  private readonly width: number;
  private starts: Uint32Array;
  private prefixes: Uint8Array = new Uint8Array(16);
  private length = 0;

  constructor(width: number) {
    this.width = width;
    this.starts = new Uint32Array(16 * width);
  }

  /** Adds all numbers that start with the first `prefix` bits of the number in `words`. */
  add(words: Uint32Array, prefix: number): void {
    const { width, length } = this;
    if (length === this.prefixes.length) this.grow();
    for (let i = 0; i < width; i++) {
      this.starts[length * width + i] = (words[i] as number) & ~hostMask(prefix, i);
    }
    this.prefixes[length] = prefix;
    this.length++;
  }

  private grow(): void {
    const [starts, prefixes] = [this.starts, this.prefixes];
    this.starts = new Uint32Array(starts.length * 2);
    this.starts.set(starts);
    this.prefixes = new Uint8Array(prefixes.length * 2);
    this.prefixes.set(prefixes);
  }

  /** Sorts the ranges, and merges those that overlap or touch. */
  *build(): Steps<SortedRanges> {
    const { width, length } = this;
    const order = yield* sortedOrder(this.starts, length, width);
    const starts = new Uint32Array(length * width);
    yield;
    const ends = new Uint32Array(length * width);
    const end = new Uint32Array(width);
    let last = -1;
    for (let i = 0; i < length; i++) {
      const from = order[i] as number;
      for (let k = 0; k < width; k++) {
        end[k] = (this.starts[from * width + k] as number) | hostMask(this.prefixes[from] as number, k);
      }
      if (last >= 0 && isAtMostNext(this.starts, from, ends, last, width)) {
        if (compare(end, 0, ends, last, width) > 0) ends.set(end, last * width);
      } else {
        last++;
        starts.set(this.starts.subarray(from * width, (from + 1) * width), last * width);
        ends.set(end, last * width);
      }
      if (i % ITEMS_PER_STEP === 0) yield;
    }
    return new SortedRanges(width, yield* shortened(starts, last + 1, width), yield* shortened(ends, last + 1, width));
  }
}

/** The first numbers in an array of their size, so that no memory is kept for ranges that were merged. */
function* shortened(numbers: Uint32Array, length: number, width: number): Steps<Uint32Array> {
  if (numbers.length === length * width) return numbers;
  yield;
  return numbers.slice(0, length * width);
}

/** The bits of word number `i` that are not part of a prefix. */
function hostMask(prefix: number, i: number): number {
  const bits = prefix - 32 * i;
  // A shift by 32 would be a shift by 0.
  return bits <= 0 ? 0xffffffff : bits >= 32 ? 0 : 0xffffffff >>> bits;
}

/** The order in which numbers are sorted. A merge sort, because `Array.sort` can't be interrupted. */
function* sortedOrder(numbers: Uint32Array, length: number, width: number): Steps<Uint32Array> {
  let [from, to] = [new Uint32Array(length), new Uint32Array(length)];
  for (let i = 0; i < length; i++) from[i] = i;
  yield;
  for (let run = 1; run < length; run *= 2) {
    for (let start = 0; start < length; start += 2 * run) {
      const [middle, end] = [Math.min(start + run, length), Math.min(start + 2 * run, length)];
      let [left, right] = [start, middle];
      for (let i = start; i < end; i++) {
        const takesLeft =
          right >= end ||
          (left < middle && compare(numbers, from[left] as number, numbers, from[right] as number, width) <= 0);
        to[i] = from[takesLeft ? left++ : right++] as number;
        if (i % ITEMS_PER_STEP === 0) yield;
      }
    }
    [from, to] = [to, from];
  }
  return from;
}

/** Compares number `i` of `a` with number `j` of `b`. */
function compare(a: Uint32Array, i: number, b: Uint32Array, j: number, width: number): number {
  for (let k = 0; k < width; k++) {
    const difference = (a[i * width + k] as number) - (b[j * width + k] as number);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Whether number `i` of `a` is at most one more than number `j` of `b`. */
function isAtMostNext(a: Uint32Array, i: number, b: Uint32Array, j: number, width: number): boolean {
  if (compare(a, i, b, j, width) <= 0) return true;
  let carry = 1;
  for (let k = width - 1; k >= 0; k--) {
    const sum = (b[j * width + k] as number) + carry;
    if (a[i * width + k] !== sum >>> 0) return false;
    carry = sum > 0xffffffff ? 1 : 0;
  }
  return true;
}
