/** Durable Objects in real workerd: the contract suite, and random steps compared with memory. Needs `npm run build`. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { scaled } from "../../scripts/scale.js";
import { STRIKE_LOG } from "../list-state/strike-log.ts";
import { withWorkerd } from "../servers/needs.ts";
import { startWorkerd, type Workerd } from "./workerd.ts";

let workerd: Workerd;
beforeAll(async () => {
  workerd = await startWorkerd("objects-worker.ts", {
    durableObjects: { OBJECTS: { className: "Objects", useSQLite: true } },
  });
});
afterAll(() => workerd?.stop());

const ALGORITHMS = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;

describe("the contract suite in workerd", withWorkerd, () => {
  it.each(
    [...ALGORITHMS, STRIKE_LOG].flatMap((algorithm) =>
      ([128, "per-key"] as const).map((shards) => ({ algorithm, shards })),
    ),
  )("passes for $algorithm with shards: $shards", async ({ algorithm, shards }) => {
    const { cases, failures } = await workerd.run<{ cases: number; failures: string[] }>("contractSuite", {
      algorithm,
      shards,
    });
    expect(failures).toEqual([]);
    expect(cases).toBeGreaterThan(20);
  });

  it.each(["concurrency", "penalty"])("passes for %s", async (algorithm) => {
    const { cases, failures } = await workerd.run<{ cases: number; failures: string[] }>("contractSuite", {
      algorithm,
      shards: 128,
    });
    expect(failures).toEqual([]);
    expect(cases).toBeGreaterThan(6);
  });
});

describe("random steps with crashes", withWorkerd, () => {
  it.each([...ALGORITHMS, STRIKE_LOG])("%s: give the same 4000 decisions as memory", async (algorithm) => {
    const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const { done, crashes, allowed } = await workerd.run<{ done: number; crashes: number; allowed: number }>(
      "randomSteps",
      {
        algorithm,
        steps: 4000,
        seed,
      },
    );
    expect(done).toBe(4000);
    expect(crashes).toBeGreaterThan(20);
    expect(allowed).toBeGreaterThan(500);
    expect(allowed).toBeLessThan(3800);
  });
});

describe("two plans with one name, interleaved at random", withWorkerd, () => {
  // A hundredth of the steps in memory: `SLUICE_SCALE=10` runs 10 000 on Durable Objects.
  const steps = scaled(1000) / ALGORITHMS.length;
  it.each(ALGORITHMS)("%s: stay within the bound of each and give the decisions of memory", async (algorithm) => {
    const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const { done, allowed } = await workerd.run<{ done: number; allowed: number }>("sharedPlans", {
      algorithm,
      steps,
      seed,
    });
    expect(done).toBeGreaterThanOrEqual(steps);
    expect(allowed).toBeGreaterThan(steps / 10);
    expect(allowed).toBeLessThan(done);
  });
});
