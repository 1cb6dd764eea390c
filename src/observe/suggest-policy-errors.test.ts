/** Tests the errors of `suggestPolicy` for invalid samples and options. */
import { describe, expect, it } from "vitest";
import { suggestPolicy } from "./suggest-policy.ts";

const START = 1_800_000_000_000;

describe("errors", () => {
  const sample = { key: "a", at: START };

  it.each<[unknown, string]>([
    [
      undefined,
      "samples must be an iterable of { key, at, cost }, such as an array; collect those of a stream in an array first, but received undefined.",
    ],
    ["text", "samples must be an iterable of { key, at, cost }"],
    [{ key: "a", at: 1 }, "samples must be an iterable of { key, at, cost }"],
    [[sample, null], "samples[1] must be an object with key, at and cost, but received null."],
    [
      [{ at: START }],
      "samples[0].key must be a string that is not empty; leave out requests without a key, but received undefined.",
    ],
    [
      [{ ...sample, key: "" }],
      'samples[0].key must be a string that is not empty; leave out requests without a key, but received "".',
    ],
    [
      [{ ...sample, at: "2026-11-17" }],
      'samples[0].at must be a number of milliseconds since the epoch, such as Date.parse(time) returns, but received "2026-11-17".',
    ],
    [[{ ...sample, at: Number.NaN }], "samples[0].at must be a number of milliseconds"],
    [[{ ...sample, at: Number.POSITIVE_INFINITY }], "samples[0].at must be a number of milliseconds"],
    [[{ ...sample, at: -1 }], "samples[0].at must be a number of milliseconds"],
    [[{ ...sample, cost: 0.5 }], "samples[0].cost must be a whole number from 0 to 2147483647, but received 0.5."],
    [[{ ...sample, cost: -1 }], "samples[0].cost must be a whole number from 0 to 2147483647, but received -1."],
    [[{ ...sample, cost: null }], "samples[0].cost must be a whole number from 0 to 2147483647, but received null."],
  ])("name the sample: %j", (samples, message) => {
    expect(() => suggestPolicy(samples as never)).toThrow(message);
  });

  it.each<[unknown, string]>([
    [null, "Expected an object for suggestPolicy, but received null."],
    [{ bin: 1000 }, '"bin" is not an option of suggestPolicy. Did you mean binMs?'],
    [{ percentile: 95 }, '"percentile" is not an option of suggestPolicy. Use headroom, burst, keyQuantile, binMs.'],
    [{ headroom: 0 }, "headroom must be a number from 0.1 to 1000, but received 0."],
    [{ headroom: "2" }, 'headroom must be a number from 0.1 to 1000, but received "2".'],
    [{ keyQuantile: 0 }, 'keyQuantile must be "busiest", or a number above 0 and up to 1, but received 0.'],
    [{ keyQuantile: 95 }, 'keyQuantile must be "busiest", or a number above 0 and up to 1, but received 95.'],
    [
      { keyQuantile: "median" },
      'keyQuantile must be "busiest", or a number above 0 and up to 1, but received "median".',
    ],
    [{ binMs: 0 }, "binMs must be a whole number >= 1, but received 0."],
    [{ binMs: 86_400_001 }, "binMs must be at most 86400000, but received 86400001."],
    [{ burst: "5s" }, 'burst must be two durations, such as ["5s", "10s"], but received "5s".'],
    [{ burst: ["5s"] }, 'burst must be two durations, such as ["5s", "10s"], but received an array.'],
    [{ burst: ["5  s", "10s"] }, "burst[0] must be a number of milliseconds, or text such as"],
    [{ burst: ["5s", "31d"] }, "burst[1] must be at most 2592000000, but received 2678400000."],
    [{ burst: ["10s", "5s"] }, "burst must be the smaller duration first, then the larger one."],
  ])("name the option: %j", (options, message) => {
    let reads = 0;
    const samples = {
      *[Symbol.iterator]() {
        reads++;
        yield sample;
      },
    };
    expect(() => suggestPolicy(samples, options as never)).toThrow(message);
    expect(reads).toBe(0);
  });

  it("don't contain the key", () => {
    const samples = [{ key: "ada@example.com", at: START, cost: -1 }];
    expect(() => suggestPolicy(samples)).toThrow(/^(?!.*ada)/);
  });
});
