/** Tests that copies of keys are equal to the key. test/kept-keys.test.ts measures their memory. */
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
