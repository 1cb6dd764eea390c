/** Tests that the suite runs in the runtime of SLUICE_RUNTIME. */
import { expect, it } from "vitest";

it("runs in the expected runtime", () => {
  const runtime = "Bun" in globalThis ? "bun" : "Deno" in globalThis ? "deno" : "node";
  expect(runtime).toBe(process.env.SLUICE_RUNTIME ?? "node");
});
