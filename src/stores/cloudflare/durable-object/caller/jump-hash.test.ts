/** Stability, spread and moves of the consistent hash. */
import { describe, expect, it } from "vitest";
import { jumpHash } from "./jump-hash.ts";

const keys = Array.from({ length: 50_000 }, (_, i) => `user:${i}`);

describe("jumpHash", () => {
  it("never changes, because another shard would have full buckets", () => {
    expect(
      ["", "a", "b", "user:1", "user:2", "192.0.2.1", "#0123456789abcdef", "ключ"].map((key) => jumpHash(key, 128)),
    ).toMatchInlineSnapshot(`
      [
        3,
        61,
        112,
        48,
        71,
        27,
        78,
        119,
      ]
    `);
    expect(keys.every((key) => jumpHash(key, 1) === 0)).toBe(true);
  });

  it.each([2, 16, 128, 1000])("spreads keys evenly over %i shards", (shards) => {
    const counts = new Array<number>(shards).fill(0);
    for (const key of keys) counts[jumpHash(key, shards)] = (counts[jumpHash(key, shards)] as number) + 1;
    const mean = keys.length / shards;
    // Six standard deviations of a fair draw.
    for (const count of counts) expect(Math.abs(count - mean)).toBeLessThan(6 * Math.sqrt(mean));
  });

  it.each([
    [128, 129],
    [128, 160],
    [128, 256],
  ])("moves keys only to new shards from %i to %i", (before, after) => {
    const moved = keys.filter((key) => jumpHash(key, before) !== jumpHash(key, after));
    expect(moved.every((key) => jumpHash(key, after) >= before)).toBe(true);
    expect(moved.length / keys.length).toBeCloseTo((after - before) / after, 1);
  });
});
