/** Tests which ranges are merged. Lookups are tested with ipList. */
import { describe, expect, it } from "vitest";
import { runSteps } from "../../base/slices.ts";
import { RangeBuilder } from "./sorted-ranges.ts";

type Words = readonly number[];

function build(ranges: readonly (readonly [words: Words, prefix: number])[]) {
  const builder = new RangeBuilder(ranges[0]?.[0].length ?? 1);
  for (const [words, prefix] of ranges) builder.add(Uint32Array.from(words), prefix);
  return runSteps(builder.build());
}

describe("SortedRanges", () => {
  const MAX = 0xffffffff;
  it.each<[string, [Words, number][], number]>([
    [
      "equal ranges",
      [
        [[7], 32],
        [[7], 32],
      ],
      1,
    ],
    [
      "a range in another",
      [
        [[0x0a000000], 8],
        [[0x0a010000], 16],
      ],
      1,
    ],
    [
      "ranges that touch",
      [
        [[8], 32],
        [[7], 32],
      ],
      1,
    ],
    [
      "ranges with a gap",
      [
        [[7], 32],
        [[9], 32],
      ],
      2,
    ],
    [
      "the first and the last number",
      [
        [[0], 32],
        [[MAX], 32],
      ],
      2,
    ],
    [
      "numbers that touch in the last word",
      [
        [[1, 2, 3, 4], 128],
        [[1, 2, 3, 5], 128],
      ],
      1,
    ],
    [
      "numbers that touch with a carry",
      [
        [[1, 2, 3, MAX], 128],
        [[1, 2, 4, 0], 128],
      ],
      1,
    ],
    [
      "numbers that touch with three carries",
      [
        [[1, MAX, MAX, MAX], 128],
        [[2, 0, 0, 0], 128],
      ],
      1,
    ],
    [
      "numbers that differ by one in every word",
      [
        [[1, 1, 1, 1], 128],
        [[2, 2, 2, 2], 128],
      ],
      2,
    ],
    [
      "numbers that differ by one in a high word",
      [
        [[1, 2, 3, 4], 128],
        [[1, 2, 4, 4], 128],
      ],
      2,
    ],
    [
      "the first and the last number of 128 bits",
      [
        [[0, 0, 0, 0], 128],
        [[MAX, MAX, MAX, MAX], 128],
      ],
      2,
    ],
  ])("merges %s if nothing is between them", (_name, ranges, length) => {
    const merged = build(ranges);
    expect(merged.length).toBe(length);
    expect(merged.isEverything).toBe(false);
    for (const [words] of ranges) expect(merged.has(Uint32Array.from(words))).toBe(true);
  });

  it("notices ranges that contain every number together", () => {
    expect(
      build([
        [[0], 1],
        [[0x80000000], 1],
      ]).isEverything,
    ).toBe(true);
    expect(
      build([
        [[0, 0, 0, 0], 1],
        [[0x80000000, 0, 0, 0], 2],
        [[0xc0000000, 0, 0, 0], 2],
      ]).isEverything,
    ).toBe(true);
    expect(
      build([
        [[0], 1],
        [[0x80000000], 2],
      ]).isEverything,
    ).toBe(false);
  });
});
