/** Tests BoundedMap: eviction order, limits and callbacks. */
import { describe, expect, it } from "vitest";
import { BoundedMap } from "./bounded-map.ts";

const keysOf = (map: BoundedMap<string, number>) => [...map].map(([key]) => key);

describe("BoundedMap", () => {
  it("evicts the oldest entry, and reports it", () => {
    const evicted: [string, number][] = [];
    const map = new BoundedMap<string, number>({ maxEntries: 2, onEvict: (key, value) => evicted.push([key, value]) });
    map.set("a", 1);
    map.set("b", 2);
    map.get("a");
    map.set("c", 3);
    expect(keysOf(map)).toEqual(["b", "c"]);
    expect(evicted).toEqual([["a", 1]]);
  });

  it("makes an entry that is set again the newest one", () => {
    const map = new BoundedMap<string, number>({ maxEntries: 2 });
    map.set("a", 1);
    map.set("b", 2);
    map.set("a", 3);
    map.set("c", 4);
    expect([...map]).toEqual([
      ["a", 3],
      ["c", 4],
    ]);
  });

  it("evicts the least recently used entry with order lru", () => {
    const map = new BoundedMap<string, number>({ maxEntries: 2, order: "lru" });
    map.set("a", 1);
    map.set("b", 2);
    expect(map.get("a")).toBe(1);
    map.set("c", 3);
    expect(keysOf(map)).toEqual(["a", "c"]);
  });

  it("doesn't store long keys, and deletes an entry that has one", () => {
    const map = new BoundedMap<string, number>({ maxEntries: 2, maxKeyLength: 3 });
    expect(map.set("abc", 1)).toBe(true);
    expect(map.set("abcd", 2)).toBe(false);
    expect([map.get("abc"), map.get("abcd"), map.size]).toEqual([1, undefined, 1]);
  });

  it("deletes and clears without reporting an eviction", () => {
    const evicted: string[] = [];
    const map = new BoundedMap<string, number>({ maxEntries: 2, onEvict: (key) => evicted.push(key) });
    map.set("a", 1);
    map.set("b", 2);
    expect([map.delete("a"), map.delete("a"), map.has("b")]).toEqual([true, false, true]);
    map.clear();
    expect([map.size, evicted.length]).toEqual([0, 0]);
  });
});
