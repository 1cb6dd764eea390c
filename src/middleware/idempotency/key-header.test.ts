import { describe, expect, it } from "vitest";
import { parseKey } from "./key-header.ts";

describe("parseKey", () => {
  it.each([
    ["8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"],
    ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"],
    ["q+/=:@!", "q+/=:@!"],
    ['"a,b;c"', "a,b;c"],
    ['"a\\"b\\\\c"', 'a"b\\c'],
    ["x".repeat(255), "x".repeat(255)],
    [`"${'\\"'.repeat(255)}"`, '"'.repeat(255)],
  ])("returns the key of %s", (field, key) => expect(parseKey(field)).toBe(key));

  it.each([
    "",
    '""',
    " ",
    "a b",
    "a,b",
    "a, b",
    "a;b=1",
    '"a";b=1',
    '"a", "a"',
    '"a',
    'a"',
    '"a"b',
    '"a b"',
    '"a\\b"',
    "a\\b",
    "a\tb",
    "a\nb",
    "a\r\nX: y",
    "\0",
    "ä",
    '"ä"',
    "\x7f",
    ":a".repeat(128),
    "x".repeat(256),
    `"${"x".repeat(256)}"`,
    "x".repeat(1_000_000),
  ])("returns nothing for the malformed %j", (field) => expect(parseKey(field)).toBeUndefined());
});
