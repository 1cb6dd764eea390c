/** Holds the five algorithms to the model and to the laws: every figure of every decision, over random walks. */
import type { AlgorithmName } from "sluice";
import { describe, expect, test } from "vitest";
import { walk } from "./model-walk.ts";
const SEED = Number(process.env["SLUICE_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const STEPS = Number(process.env["SLUICE_STEPS"] ?? 1_000_000);
const SHARES: Record<AlgorithmName, number> = {
  "token-bucket": 0.25, "leaky-bucket": 0.2, "fixed-window": 0.2, "sliding-window": 0.2, "sliding-log": 0.15,
};
describe("walks", () => {
  for (const [name, share] of Object.entries(SHARES)) test(name, () => {
    const t0 = performance.now();
    const tally = walk(name as AlgorithmName, STEPS*share, SEED);
    console.log(name, tally, performance.now()-t0);
    expect(tally.steps).toBe(STEPS*share);
  });
});
