/** Durable Objects in real workerd: the contract, and random steps beside memory. Needs `npm run build`. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { STRIKE_LOG } from "../list-state/strike-log.ts";
import { startWorkerd, type Workerd } from "./workerd.ts";

let workerd: Workerd;
beforeAll(async () => {
  workerd = await startWorkerd("objects-worker.ts", {
    durableObjects: { OBJECTS: { className: "Objects", useSQLite: true } },
  });
});
afterAll(() => workerd?.stop());

const ALGORITHMS = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;

describe("the contract kit, inside of workerd", () => {
  it.each(
    [...ALGORITHMS, STRIKE_LOG].flatMap((algorithm) =>
      ([128, "per-key"] as const).map((shards) => ({ algorithm, shards })),
    ),
  )("$algorithm over $shards", async ({ algorithm, shards }) => {
    const { cases, failures } = await workerd.ask<{ cases: number; failures: string[] }>("kit", {
      algorithm,
      shards,
    });
    expect(failures).toEqual([]);
    expect(cases).toBeGreaterThan(20);
  });
});

describe("random steps, compared to memory", () => {
  it.each([...ALGORITHMS, STRIKE_LOG])("%s: 4000 of them, and objects that are lost on the way", async (algorithm) => {
    const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const { done, crashes, allowed } = await workerd.ask<{ done: number; crashes: number; allowed: number }>("walk", {
      algorithm,
      steps: 4000,
      seed,
    });
    expect(done).toBe(4000);
    expect(crashes).toBeGreaterThan(20);
    expect(allowed).toBeGreaterThan(500);
    expect(allowed).toBeLessThan(3800);
  });
});

describe("two plans of one name, interleaved at random", () => {
  // A hundredth of the steps in memory: `SLUICE_STEPS=1000000` makes 10 000 on Durable Objects.
  const steps = Number(process.env.SLUICE_STEPS ?? 100_000) / 100 / ALGORITHMS.length;
  it.each(ALGORITHMS)("%s: stay within the bound of each, as in memory", async (algorithm) => {
    const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const { done, allowed } = await workerd.ask<{ done: number; allowed: number }>("plans", { algorithm, steps, seed });
    expect(done).toBeGreaterThanOrEqual(steps);
    expect(allowed).toBeGreaterThan(steps / 10);
    expect(allowed).toBeLessThan(done);
  });
});
