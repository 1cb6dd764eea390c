/** Reads recorded requests into arrays of numbers, grouped by key and sorted by time. */

import { copyKey } from "../base/copy-key.ts";
import { optionError } from "../base/errors.ts";
import { isCost } from "../core/charge.ts";

/** One recorded request. */
export interface TrafficSample {
  /** Who made the request, such as an API key or a user. */
  readonly key: string;
  /** When it was made, in epoch milliseconds. */
  readonly at: number;
  /** What it costs, a whole number. Default: 1. */
  readonly cost?: number;
}

/** Recorded requests. Those of key `k` have the indices from `starts[k]` up to `starts[k + 1]`, in the order of time. */
export interface Traffic {
  readonly keys: readonly string[];
  readonly starts: Int32Array;
  /** Whole epoch milliseconds. */
  readonly times: Float64Array;
  readonly costs: Int32Array;
  readonly requests: number;
  /** The first and the last time; 0 without requests. */
  readonly firstAt: number;
  readonly lastAt: number;
}

/** The latest time that an algorithm accepts. */
const MAX_TIME = 2 ** 52;
const FIRST_SIZE = 1024;

/** Reads samples in any order. Those of one key and millisecond keep their order. */
export function readTraffic(samples: Iterable<TrafficSample>): Traffic {
  const ids = new Map<string, number>();
  let [idOf, times, costs] = arraysOf(FIRST_SIZE);
  let requests = 0;
  for (const sample of checkIterable(samples)) {
    const { key, at, cost = 1 } = checkSample(sample, requests);
    let id = ids.get(key);
    // A key may be a slice of a log line and would retain all of it.
    if (id === undefined) ids.set(copyKey(key), (id = ids.size));
    if (requests === times.length) {
      const [oldIds, oldTimes, oldCosts] = [idOf, times, costs];
      [idOf, times, costs] = arraysOf(2 * requests);
      idOf.set(oldIds);
      times.set(oldTimes);
      costs.set(oldCosts);
    }
    idOf[requests] = id;
    times[requests] = Math.floor(at);
    costs[requests++] = cost;
  }
  return grouped([...ids.keys()], idOf.subarray(0, requests), times, costs);
}

function arraysOf(size: number): [ids: Int32Array, times: Float64Array, costs: Int32Array] {
  return [new Int32Array(size), new Float64Array(size), new Int32Array(size)];
}

/** Sorts by key, which keeps the order within a key, and then each key by time. */
function grouped(keys: string[], ids: Int32Array, times: Float64Array, costs: Int32Array): Traffic {
  const requests = ids.length;
  const starts = new Int32Array(keys.length + 1);
  for (const id of ids) starts[id + 1] = (starts[id + 1] as number) + 1;
  for (let id = 0; id < keys.length; id++) starts[id + 1] = (starts[id + 1] as number) + (starts[id] as number);
  const next = starts.slice();
  const [, sortedTimes, sortedCosts] = arraysOf(requests);
  let [firstAt, lastAt] = requests > 0 ? [times[0] as number, times[0] as number] : [0, 0];
  for (let i = 0; i < requests; i++) {
    const id = ids[i] as number;
    const to = next[id] as number;
    const at = times[i] as number;
    next[id] = to + 1;
    sortedTimes[to] = at;
    sortedCosts[to] = costs[i] as number;
    if (at < firstAt) firstAt = at;
    if (at > lastAt) lastAt = at;
  }
  for (let id = 0; id < keys.length; id++) {
    const [from, to] = [starts[id] as number, starts[id + 1] as number];
    sortByTime(sortedTimes.subarray(from, to), sortedCosts.subarray(from, to));
  }
  return { keys, starts, times: sortedTimes, costs: sortedCosts, requests, firstAt, lastAt };
}

/** Sorts both arrays in place. Logs are nearly always sorted already. */
function sortByTime(times: Float64Array, costs: Int32Array): void {
  if (times.every((at, i) => i === 0 || (times[i - 1] as number) <= at)) return;
  const [oldTimes, oldCosts] = [times.slice(), costs.slice()];
  const order = Array.from(times.keys()).sort((a, b) => (oldTimes[a] as number) - (oldTimes[b] as number));
  for (const [i, from] of order.entries()) {
    times[i] = oldTimes[from] as number;
    costs[i] = oldCosts[from] as number;
  }
}

function checkIterable(samples: Iterable<TrafficSample>): Iterable<TrafficSample> {
  const isObject = typeof samples === "object" && samples !== null;
  if (isObject && typeof samples[Symbol.iterator] === "function") return samples;
  const expected = "an iterable of { key, at, cost }, such as an array; collect those of a stream in an array first";
  throw optionError("invalid-option", "samples", expected, samples);
}

function checkSample(sample: TrafficSample, index: number): TrafficSample {
  const option = `samples[${index}]`;
  if (typeof sample !== "object" || sample === null) {
    throw optionError("invalid-option", option, "an object with key, at and cost", sample);
  }
  const { key, at, cost = 1 } = sample;
  if (typeof key !== "string" || key === "") {
    const expected = "a string that is not empty; leave out requests without a key";
    throw optionError("invalid-key", `${option}.key`, expected, key);
  }
  if (typeof at !== "number" || !(at >= 0 && at <= MAX_TIME)) {
    const expected = "a number of milliseconds since the epoch, such as Date.parse(time) returns";
    throw optionError("invalid-option", `${option}.at`, expected, at);
  }
  if (isCost(cost)) return sample;
  throw optionError("invalid-cost", `${option}.cost`, "a whole number from 0 to 2147483647", cost);
}
