/** Tests the hash of long keys: the reference vectors of HalfSipHash, and its use in a store. */
import { memoryRateLimiter } from "sluice";
import { describe, expect, it } from "vitest";
import { halfSipHash, shortKey } from "./short-key.ts";

describe("halfSipHash", () => {
  // Reference vectors for the key 00 01 .. 07 and the bytes 00 01 02 .. of each even length.
  it.each([
    [0, "218d1f59b9b83cc8"],
    [2, "064f39ef7c50eb57"],
    [4, "d5e78a175be52ea1"],
    [6, "ce3e91358aa2bc25"],
    [8, "edfee820bce4858c"],
  ])("gives the reference vector of %d bytes", (bytes, vector) => {
    const units = Array.from({ length: bytes / 2 }, (_, i) => (2 * i) | ((2 * i + 1) << 8));
    const words = halfSipHash(String.fromCharCode(...units), 0x03020100, 0x07060504).match(/.{8}/g) ?? [];
    const littleEndian = words.map((word) => (word.match(/../g) ?? []).reverse().join("")).join("");
    expect(littleEndian).toBe(vector);
  });
});

describe("shortKey", () => {
  it("keeps a key of up to 128 characters and shortens a longer one to 32", () => {
    expect(shortKey("k".repeat(128))).toBe("k".repeat(128));
    expect(shortKey("k".repeat(129))).toMatch(/^[0-9a-f]{32}$/);
    expect(shortKey("k".repeat(2 ** 20))).toHaveLength(32);
  });

  it("distinguishes long keys by their last character and their length", () => {
    const tags = [129, 130, 131, 132, 133].flatMap((length) =>
      ["a", "b"].map((end) => shortKey("k".repeat(length - 1) + end)),
    );
    expect(new Set(tags).size).toBe(10);
    expect(shortKey(`${"k".repeat(200)}a`)).toBe(shortKey(`${"k".repeat(200)}a`));
  });

  it("bounds the memory of a store and is returned by inspect", async () => {
    const limiter = memoryRateLimiter({ capacity: 2, tokensPerSecond: 1 });
    const key = "header".repeat(1000);
    limiter.consumeSync(key);
    expect(limiter.consumeSync(key).remaining).toBe(0);
    const { key: given, storedKey: kept } = await limiter.inspect(key);
    expect(given).toBe(key);
    expect(kept).toHaveLength(32);
  });
});
