/** Tests that stored keys do not retain the header or URL that they were cut from (issue 13). */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const KEY_LENGTH = 40;
const CUTS = ["slice", "regexp", "split", "template"];

function bytesPerKey(table: string, cut: string): number {
  const script = fileURLToPath(new URL("kept-keys.js", import.meta.url));
  const { bytes } = JSON.parse(
    execFileSync(process.execPath, ["--expose-gc", script, table, cut], { encoding: "utf8" }),
  );
  console.log(`${table}, key cut by ${cut}: ${bytes} bytes for a key of ${KEY_LENGTH} characters`);
  return bytes;
}

describe("keys cut out of headers of 12 kB", () => {
  it.each(CUTS)("use at most 120 bytes more than their length in the memory store: 100 000 cut by %s", (cut) => {
    expect(bytesPerKey("memory", cut)).toBeLessThanOrEqual(KEY_LENGTH + 120);
  });

  // These entries are larger than those of the memory store, and far smaller than a header.
  it.each([
    ["denials", "slice"],
    ["denials", "template"],
    ["refunds", "slice"],
    ["kv", "slice"],
    ["connections", "slice"],
  ])("do not retain their header in the table of %s (%s)", (table, cut) => {
    expect(bytesPerKey(table, cut)).toBeLessThan(1500);
  });
});

it("retains at most 400 bytes of a policy whose limiter is disposed and whose buckets are gone", () => {
  expect(bytesPerKey("names", "slice")).toBeLessThan(400);
});
