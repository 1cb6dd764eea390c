/** Tests tags of keys against Node's HMAC. */
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { keyHmac } from "./key-hmac.ts";

describe("keyHmac", () => {
  it("is the start of HMAC-SHA-256 over UTF-16, for several secrets in turn", () => {
    const secrets = [new Uint8Array(0), new Uint8Array(32).fill(7), new Uint8Array(100).fill(9)];
    const hashers = secrets.map((secret) => keyHmac(secret));
    for (const key of ["", "user:42", "user:\ud800", "user:\ufffd", "é€😀", "x".repeat(1000)]) {
      for (const [i, secret] of secrets.entries()) {
        const expected = createHmac("sha256", secret).update(Buffer.from(key, "utf16le")).digest("hex").slice(0, 32);
        expect(Buffer.from(hashers[i]?.(key) ?? []).toString("hex")).toBe(expected);
      }
    }
  });

  it("returns a tag that later calls don't change", () => {
    const hash = keyHmac(new Uint8Array(32));
    const first = hash("a");
    const copy = Uint8Array.from(first);
    hash("b");
    expect(first).toEqual(copy);
  });
});
