/** Names of entries: stable, distinct, and without the text of a client. */
import { describe, expect, it } from "vitest";
import { entryName, scopeName } from "./entry-name.ts";
import { joinKey } from "./join-key.ts";

describe("entryName", () => {
  it("never changes, because another name would let requests run again", () => {
    expect(entryName({ scope: "user 7", key: "k" }, {})).toMatchInlineSnapshot(
      `"i1:{8771a397968f2e3a9cc60ee8fd2a6be6}"`,
    );
    expect(entryName({ scope: "user 7", key: "k" }, { hmacSecret: "secret" })).toMatchInlineSnapshot(
      `"i1:{f04f6e7804654dfb0f6c1ee1967dc833}"`,
    );
    expect(scopeName("user 7", { hmacSecret: "secret" })).toMatchInlineSnapshot(
      `"i1:{4c63ec8c89d88799b939b2d4e310b25e}"`,
    );
  });

  it("has one hash tag of hexadecimal digits, whatever the key", () => {
    for (const text of ["{a}", "}{", "a".repeat(100_000), "\ud800", "\n", "😀"]) {
      expect(entryName({ scope: text, key: text }, {})).toMatch(/^i1:\{[0-9a-f]{32}\}$/);
    }
  });
});

describe("joinKey", () => {
  it("gives every pair a text of its own", () => {
    const parts = ["", "1", ":", "1:", "11", "a", "ab", "b", "2:ab", "1:a"];
    const texts = parts.flatMap((scope) => parts.map((key) => joinKey({ scope, key })));
    expect(new Set(texts).size).toBe(parts.length ** 2);
  });
});
