/** Durable Objects in real workerd: the contract, concurrency, restarts, expiry, bad input. Needs `npm run build`. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "./workerd.ts";

let workerd: Workerd;
beforeAll(async () => {
  workerd = await startWorkerd("objects-worker.ts", {
    durableObjects: {
      OBJECTS: { className: "Objects", useSQLite: true },
      SLOPPY: { className: "Sloppy", useSQLite: true },
    },
  });
});
afterAll(() => workerd?.stop());

const ALGORITHMS = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;

describe("the contract kit, inside of workerd", () => {
  it.each(ALGORITHMS.flatMap((algorithm) => ([128, "per-key"] as const).map((shards) => ({ algorithm, shards }))))(
    "$algorithm over $shards",
    async ({ algorithm, shards }) => {
      const { cases, failures } = await workerd.ask<{ cases: number; failures: string[] }>("kit", {
        algorithm,
        shards,
      });
      expect(failures).toEqual([]);
      expect(cases).toBeGreaterThan(20);
    },
  );
});
