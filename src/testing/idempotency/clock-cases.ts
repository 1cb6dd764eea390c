/** Cases that need a clock which moves by exact milliseconds, also backwards. They are not among the 60. */
import { check, checkEqual } from "../check.ts";
import { type IdempotencyCase, textResponse } from "./bench.ts";

const LEASE_MS = 50;
const HOUR_MS = 3_600_000;

export const clockCases: readonly IdempotencyCase[] = [
  {
    title: "starts when the lease ends, and not a millisecond earlier",
    async run(bench) {
      await bench.checkStarted("a", 1, { leaseMs: LEASE_MS });
      await bench.advance(LEASE_MS - 1);
      checkEqual(await bench.checkInProgress(), 1, "the rest of the lease");
      await bench.advance(1);
      await bench.checkStarted("b", 2);
    },
  },
  {
    title: "does not give a lease to two owners when the clock steps back",
    async run(bench) {
      await bench.checkStarted("a", 1, { leaseMs: LEASE_MS });
      for (let i = 0; i < 3; i++) {
        await bench.advance(-HOUR_MS);
        const leaseMs = await bench.checkInProgress();
        check(leaseMs <= LEASE_MS, `a lease of ${LEASE_MS} ms has ${leaseMs} left`);
      }
      checkEqual(await bench.store.renew(bench.id(), "a", LEASE_MS), true, "renew by the owner");
      checkEqual(await bench.complete("a"), true, "complete by the owner");
      await bench.checkCompleted(textResponse("a"));
    },
  },
  {
    title: "frees a key one lease after the clock has stepped back",
    async run(bench) {
      await bench.checkStarted("a", 1, { leaseMs: LEASE_MS });
      await bench.advance(-HOUR_MS);
      await bench.checkInProgress();
      await bench.advance(LEASE_MS - 1);
      await bench.checkInProgress();
      await bench.advance(1);
      await bench.checkStarted("b", 2);
    },
  },
  {
    title: "keeps a response when the clock steps back",
    async run(bench) {
      await bench.checkStarted("a", 1);
      checkEqual(await bench.complete("a"), true, "complete");
      await bench.advance(-HOUR_MS);
      await bench.checkCompleted(textResponse("a"));
    },
  },
];
