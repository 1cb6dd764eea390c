/** The most denied keys of 50 seeded streams against exact counts. `node stress/run.js observe-top-keys` runs longer streams. */

import { describe, expect, it } from "vitest";
import { scaled } from "../../scripts/scale.js";
import { type Random, randomFrom } from "../testing/random.ts";
import { TopKeys } from "./top-keys.ts";

const NOW = 1_800_000_000_000;
const GENERATION_MS = 300_000;
const RULES = ["api", "login", "search"];
/** Denials per stream. */
const LENGTH = scaled(20_000, 10_000);
const SEED = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
const RUNS = 5;

/** One denial as the number of its key. The rule follows from the key. */
type Stream = Int32Array;

const STREAMS: Record<string, (random: Random, capacity: number) => Stream> = {
  "Zipf 0.6": (random) => zipf(random, 0.6),
  "Zipf 0.8": (random) => zipf(random, 0.8),
  "Zipf 1": (random) => zipf(random, 1),
  "Zipf 1.5": (random) => zipf(random, 1.5),
  uniform: (random) => generate(() => random.whole(0, 999)),
  "rare keys first": (random) => zipf(random, 1).sort((a, b) => b - a),
  "frequent keys first": (random) => zipf(random, 1).sort(),
  // Every key takes over the counter that the key after it would have needed.
  "one key more than counters, in turn": (_, capacity) => generate((i) => i % (capacity + 1)),
  // The counters are full of equal counts when the frequent key arrives last.
  "a frequent key after a full table": (random, capacity) =>
    generate((i) => (i < LENGTH * 0.9 ? i % (2 * capacity) : random.whole(0, 9) === 0 ? i : -1)),
  "spray of 95% one-time keys": (random) => spray(random),
};

describe(`top keys of streams of ${LENGTH} denials, seed ${SEED}`, () => {
  describe.each(Object.entries(STREAMS))("%s", (name, create) => {
    it.each(Array.from({ length: RUNS }, (_, run) => run))("run %d", (run) => {
      const random = randomFrom(SEED + run);
      const capacity = run === 0 || name.startsWith("spray") ? 256 : random.pick([1, 16, 100, 256, 1024]);
      const stream = create(random, capacity);
      const where = `${name}, run ${run}, ${capacity} counters, SLUICE_SEED=${SEED}`;
      checkStream(stream, capacity, where);
      checkTwoGenerations(stream, capacity, where);
    });
  });

  it.each(Array.from({ length: RUNS }, (_, run) => run))("ranks ten heavy keys before a spray, run %d", (run) => {
    const stream = spray(randomFrom(SEED + run));
    const top = new TopKeys(256, (key) => key);
    for (const key of stream) top.add(ruleOf(key), nameOf(key), NOW);
    const first = top.top(10, NOW).map(({ rule, tag }) => `${rule} ${tag}`);
    const heavy = Array.from({ length: 10 }, (_, key) => `${ruleOf(key)} ${nameOf(key)}`);
    expect(first.sort(), `SLUICE_SEED=${SEED}`).toEqual(heavy.sort());
  });
});

/** The bounds of Space-Saving within one generation. */
function checkStream(stream: Stream, capacity: number, where: string): void {
  const top = new TopKeys(capacity, (key) => key);
  const stepMs = (GENERATION_MS - 1) / stream.length;
  for (const [i, key] of stream.entries()) top.add(ruleOf(key), nameOf(key), NOW + Math.floor(i * stepMs));
  const exact = exactCounts(stream);
  const maxError = stream.length / capacity;
  const entries = top.top(capacity, NOW + GENERATION_MS - 1);
  const failures: string[] = [];
  for (const { rule, tag, count, atLeast } of entries) {
    const truth = exact.get(`${rule} ${tag}`) ?? 0;
    if (!(atLeast <= truth && truth <= count)) failures.push(`${rule} ${tag}: ${truth} is not in ${atLeast}..${count}`);
    if (count - atLeast > maxError) failures.push(`${rule} ${tag}: error ${count - atLeast}, at most ${maxError}`);
  }
  const listed = new Set(entries.map(({ rule, tag }) => `${rule} ${tag}`));
  for (const [pair, truth] of exact)
    if (truth > maxError && !listed.has(pair)) failures.push(`${pair}: ${truth} times, not listed`);
  expect(failures, where).toEqual([]);
  expect(listed.size, where).toBe(Math.min(capacity, exact.size));
  expect(
    entries.reduce((sum, { count }) => sum + count, 0),
    where,
  ).toBe(stream.length);
  const ranks = entries.map(({ atLeast }) => atLeast);
  expect(ranks, where).toEqual(ranks.toSorted((a, b) => b - a));
}

/** The bounds across two generations, each with a half of the stream. */
function checkTwoGenerations(stream: Stream, capacity: number, where: string): void {
  const top = new TopKeys(capacity, (key) => key);
  const half = stream.length >> 1;
  for (const [i, key] of stream.entries()) top.add(ruleOf(key), nameOf(key), NOW + (i < half ? 0 : GENERATION_MS));
  const exact = exactCounts(stream);
  const failures = top.top(2 * capacity, NOW + GENERATION_MS).filter(({ rule, tag, count, atLeast }) => {
    const truth = exact.get(`${rule} ${tag}`) ?? 0;
    return !(atLeast <= truth && truth <= count);
  });
  expect(failures, where).toEqual([]);
}

function exactCounts(stream: Stream): Map<string, number> {
  const counts = new Map<number, number>();
  for (const key of stream) counts.set(key, (counts.get(key) ?? 0) + 1);
  return new Map(Array.from(counts, ([key, count]) => [`${ruleOf(key)} ${nameOf(key)}`, count]));
}

function ruleOf(key: number): string {
  return RULES[(key + 1) % RULES.length] as string;
}

/** Every third name belongs to a key of each rule, so that rules share names. */
function nameOf(key: number): string {
  return `user:${Math.floor((key + 1) / RULES.length)}`;
}

function generate(keyAt: (i: number) => number): Stream {
  return Int32Array.from({ length: LENGTH }, (_, i) => keyAt(i));
}

/** Keys with frequencies proportional to 1/rank^exponent. */
function zipf(random: Random, exponent: number): Stream {
  const sums = new Float64Array(100_000);
  let sum = 0;
  for (let rank = 1; rank <= sums.length; rank++) {
    sum += 1 / rank ** exponent;
    sums[rank - 1] = sum;
  }
  return generate(() => {
    const target = (random.whole(0, 2 ** 30 - 1) / 2 ** 30) * sum;
    let [low, high] = [0, sums.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] as number) <= target) low = middle + 1;
      else high = middle;
    }
    return low;
  });
}

/** Ten keys with 0.5% of the stream each, more than 1/256, in random places among keys that occur once. */
function spray(random: Random): Stream {
  const heavy = Math.floor(LENGTH / 20);
  const stream = generate((i) => (i < heavy ? i % 10 : i));
  for (let i = LENGTH - 1; i > 0; i--) {
    const j = random.whole(0, i);
    [stream[i], stream[j]] = [stream[j] as number, stream[i] as number];
  }
  return stream;
}
