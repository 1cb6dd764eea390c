/** Tests the generations of the most denied keys, and what is kept of a key. */
import { getHeapStatistics } from "node:v8";
import { describe, expect, it, vi } from "vitest";
import { collectGarbage } from "../../test/collect-garbage.ts";
import { hmacTag } from "../base/hmac-tag.ts";
import { TopKeys } from "./top-keys.ts";

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;
const tagOf = (key: string) => hmacTag(key, "secret").slice(0, 8);

function addTimes(top: TopKeys, times: number, key: string, now: number, rule = "api"): void {
  for (let i = 0; i < times; i++) top.add(rule, key, now);
}

describe("generations", () => {
  it("adds up the current and the previous one", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 3, "a", NOW);
    addTimes(top, 4, "a", NOW + 5 * MINUTE);
    addTimes(top, 5, "b", NOW + 6 * MINUTE);
    expect(top.top(10, NOW + 6 * MINUTE)).toEqual([
      { tag: tagOf("a"), rule: "api", count: 7, atLeast: 7, since: NOW },
      { tag: tagOf("b"), rule: "api", count: 5, atLeast: 5, since: NOW + 6 * MINUTE },
    ]);
  });

  it("drops a generation 10 minutes after its start, and not earlier", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 3, "a", NOW);
    expect(top.top(10, NOW + 10 * MINUTE - 1)).toHaveLength(1);
    addTimes(top, 1, "b", NOW + 10 * MINUTE - 1);
    expect(top.top(10, NOW + 10 * MINUTE).map(({ tag }) => tag)).toEqual([tagOf("b")]);
  });

  it("drops both after 10 minutes without a denial", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 3, "a", NOW);
    addTimes(top, 3, "a", NOW + 6 * MINUTE);
    expect(top.top(10, NOW + 15 * MINUTE)).toEqual([]);
    expect(top.ratesByRule(NOW + 15 * MINUTE)).toEqual(new Map());
  });

  it("sets since to the current generation when the previous one is dropped", () => {
    const top = new TopKeys(8, tagOf);
    for (let minute = 0; minute <= 12; minute++) addTimes(top, 1, "a", NOW + minute * MINUTE);
    expect(top.top(1, NOW + 12 * MINUTE)).toMatchObject([{ count: 8, since: NOW + 5 * MINUTE }]);
  });

  it("adds what a full generation may have counted without the key", () => {
    const top = new TopKeys(1, tagOf);
    addTimes(top, 5, "a", NOW);
    addTimes(top, 2, "b", NOW + 5 * MINUTE);
    const [first, second] = top.top(10, NOW + 5 * MINUTE);
    expect(first).toMatchObject({ tag: tagOf("a"), atLeast: 5, count: 7 });
    expect(second).toMatchObject({ tag: tagOf("b"), atLeast: 2, count: 7 });
  });
});

describe("a clock that steps back", () => {
  it("keeps the counts and the age of a key", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 600, "a", NOW);
    addTimes(top, 600, "a", NOW + 2 * MINUTE);
    const stepped = NOW - 60 * MINUTE;
    addTimes(top, 1, "b", stepped);
    expect(top.top(10, stepped)).toEqual([
      { tag: tagOf("a"), rule: "api", count: 1200, atLeast: 1200, since: stepped - 2 * MINUTE },
      { tag: tagOf("b"), rule: "api", count: 1, atLeast: 1, since: stepped },
    ]);
    expect(top.ratesByRule(stepped)).toEqual(new Map([["api", 10]]));
  });

  it("still drops a generation after 10 minutes", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 3, "a", NOW);
    const stepped = NOW - 60 * MINUTE;
    expect(top.top(10, stepped)).toHaveLength(1);
    expect(top.top(10, stepped + 10 * MINUTE - 1)).toHaveLength(1);
    expect(top.top(10, stepped + 10 * MINUTE)).toEqual([]);
  });

  it("survives many steps", () => {
    const top = new TopKeys(8, tagOf);
    for (let i = 0; i < 1000; i++) addTimes(top, 1, "a", NOW + (i % 2 === 0 ? 0 : 100));
    // Each step forward of 100 ms counts as elapsed time, each step back as none.
    expect(top.top(1, NOW)).toEqual([
      { tag: tagOf("a"), rule: "api", count: 1000, atLeast: 1000, since: NOW - 50_000 },
    ]);
  });
});

describe("ratesByRule", () => {
  it("returns the denials per second of one key of each rule", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 300, "a", NOW);
    addTimes(top, 30, "b", NOW);
    addTimes(top, 60, "a", NOW, "login");
    expect(top.ratesByRule(NOW + MINUTE)).toEqual(
      new Map([
        ["api", 5],
        ["login", 1],
      ]),
    );
  });

  it("divides by at least 10 seconds", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 5, "a", NOW);
    expect(top.ratesByRule(NOW)).toEqual(new Map([["api", 0.5]]));
    expect(top.ratesByRule(NOW + 20_000)).toEqual(new Map([["api", 0.25]]));
  });

  it("returns the rate of a new flood before that of a key with more denials long ago", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 1000, "a", NOW);
    addTimes(top, 900, "b", NOW + 8 * MINUTE);
    expect(top.ratesByRule(NOW + 8 * MINUTE + 20_000)).toEqual(new Map([["api", 45]]));
  });

  it("computes no tags", () => {
    const tag = vi.fn(tagOf);
    const top = new TopKeys(8, tag);
    addTimes(top, 5, "a", NOW);
    top.ratesByRule(NOW);
    expect(tag).not.toHaveBeenCalled();
  });
});

describe("what is kept of a key", () => {
  it("computes a tag on reading, and only of the keys that are returned", () => {
    const tag = vi.fn(tagOf);
    const top = new TopKeys(8, tag);
    for (const [key, times] of [
      ["a".repeat(128), 3],
      ["b", 2],
      ["c", 1],
    ] as const)
      addTimes(top, times, key, NOW);
    expect(tag).not.toHaveBeenCalled();
    expect(top.top(2, NOW)).toMatchObject([{ tag: tagOf("a".repeat(128)) }, { tag: tagOf("b") }]);
    expect(tag).toHaveBeenCalledTimes(2);
  });

  it("keeps the tag of a key over 128 characters, and nothing else of it", () => {
    const long = `token:${"0123456789".repeat(13)}`;
    const top = new TopKeys(8, tagOf);
    addTimes(top, 3, long, NOW);
    // A key of a client that has the text of the tag is another key.
    addTimes(top, 2, tagOf(long), NOW);
    expect(top.top(10, NOW)).toMatchObject([
      { tag: tagOf(long), count: 3 },
      { tag: tagOf(tagOf(long)), count: 2 },
    ]);
    expect(textsIn(top).some((text) => text.includes("0123456789"))).toBe(false);
  });

  it("returns tags only", () => {
    const top = new TopKeys(8, tagOf);
    addTimes(top, 3, "ada@example.com", NOW);
    expect(JSON.stringify(top.top(10, NOW))).not.toContain("ada");
    expect(Object.keys(top.top(10, NOW)[0] ?? {}).sort()).toEqual(["atLeast", "count", "rule", "since", "tag"]);
  });

  it.skipIf(!collectGarbage)("does not retain the header that a key was cut from", () => {
    const used = () => {
      collectGarbage?.();
      return getHeapStatistics().used_heap_size;
    };
    const top = new TopKeys(2000, tagOf);
    const before = used();
    for (let i = 0; i < 2000; i++) {
      // A header that was read from a socket is one flat string.
      const header = Buffer.from(`token=${String(i).padStart(40, "0")};${"x".repeat(20_000)}`).toString("latin1");
      top.add("api", header.slice(6, 46), NOW);
    }
    // The headers have 40 MB.
    expect(used() - before).toBeLessThan(4_000_000);
    expect(top.top(2000, NOW)).toHaveLength(2000);
  });

  it("is bounded by the number of counters", () => {
    const top = new TopKeys(16, tagOf);
    for (let i = 0; i < 100_000; i++) top.add(`rule ${i % 1000}`, `key ${i}`, NOW + i * 10);
    expect(textsIn(top).length).toBeLessThanOrEqual(2 * 16 * 5);
  });
});

describe("the number of counters", () => {
  it.each([
    [0, "topKeys must be a whole number >= 1, but received 0."],
    [1.5, "topKeys must be a whole number >= 1, but received 1.5."],
    [65_537, "topKeys must be at most 65536, but received 65537."],
  ])("can't be %d", (capacity, message) => {
    expect(() => new TopKeys(capacity, tagOf)).toThrow(message);
  });
});

/** Every text that an object retains, in members, arrays and maps. */
function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (value instanceof Map) return [...value].flat().flatMap(textsIn);
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return [];
  return Object.values(value).flatMap(textsIn);
}
