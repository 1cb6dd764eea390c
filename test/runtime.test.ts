/** That a run of this suite really is in the runtime that it says. */
import { expect, it } from "vitest";

it("runs where it says", () => {
  const there = "Bun" in globalThis ? "bun" : "Deno" in globalThis ? "deno" : "node";
  expect(there).toBe(process.env.SLUICE_RUNTIME ?? "node");
});
