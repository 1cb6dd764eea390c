/** `deepJson` against `JSON.stringify`, and values that are too deep for it. */
import { describe, expect, it } from "vitest";
import { deepJson } from "./deep-json.ts";

const ANY = () => {};

describe("deepJson", () => {
  it.each([
    [null],
    [{ a: [1, "x", true, null, {}, [], { b: { c: [[]] } }], "d\n": "é\u2028", e: undefined, f: () => {} }],
    [[undefined, () => {}, Number.NaN, new Date(0), { d: new Date(0) }]],
    [JSON.parse('{"__proto__":{"a":1},"10":1,"2":2}')],
  ])("gives the same text: %j", (value) => {
    expect(deepJson(value, 1000, ANY)).toBe(JSON.stringify(value));
  });

  // JSON.stringify throws for these on Node 20, and not in Deno 2.
  it("formats values that are nested 100 000 deep", () => {
    for (const [open, close] of [
      ["[", "]"],
      ['{"a":', "}"],
    ] as const) {
      const text = `${open.repeat(100_000)}1${close.repeat(100_000)}`;
      const value: unknown = JSON.parse(text);
      expect(deepJson(value, text.length, ANY)).toBe(text);
      expect(deepJson(value, text.length - 1, ANY)).toBeUndefined();
    }
  });

  it("ends with a cycle", () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    expect(deepJson(cycle, 1000, ANY)).toBeUndefined();
  });
});
