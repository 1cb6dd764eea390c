/** Copies of keys: equal to the key, whatever is in it. What they weigh is measured in test/kept-keys.test.ts. */
import { expect, it } from "vitest";
import { copyKey } from "./copy-key.ts";

it.each([
  "k",
  "42",
  "4294967295",
  "-0",
  "__proto__",
  "constructor",
  "toString",
  "a\0b",
  "ключ",
  "😀",
  "x".repeat(1000),
])("returns an equal key for %j", (key) => {
  expect(copyKey(key)).toBe(key);
});

it("keeps lone surrogates apart", () => {
  const keys = ["\ud800", "\udc00", "\ud800a", "a\udfff", "\udc00\ud800", "\ufffd"];
  expect(keys.map(copyKey)).toEqual(keys);
  expect(new Set(keys.map(copyKey)).size).toBe(keys.length);
});
