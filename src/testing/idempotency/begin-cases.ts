/** Cases about claims: one caller starts, the others get the state of the key and whether their payload is the same. */
import { check, checkEqual } from "../check.ts";
import { type IdempotencyCase, LONG_MS, SHORT_MS, textResponse } from "./bench.ts";

const FIFTY = Array.from({ length: 50 }, (_, i) => `owner-${i}`);

export const beginCases: readonly IdempotencyCase[] = [
  {
    title: "starts a new key with attempt 1",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await bench.checkStarted("a", 1, bench.id("another key"));
    },
  },
  {
    title: "reports a key in progress to another owner",
    async run(bench) {
      await bench.checkStarted("a", 1);
      for (let i = 0; i < 3; i++) await bench.checkInProgress();
    },
  },
  {
    title: "reports the rest of the lease in whole milliseconds",
    async run(bench) {
      await bench.checkStarted("a", 1, { leaseMs: 60_000 });
      const first = await bench.checkInProgress();
      check(first <= 60_000 && first > 10_000, `the rest of a lease of 60 000 ms is ${first}`);
      await bench.advance(SHORT_MS);
      const second = await bench.checkInProgress();
      check(second <= first - SHORT_MS, `the rest is ${first}, and ${second} after ${SHORT_MS} ms`);
    },
  },
  {
    title: "starts exactly one of 50 concurrent callers",
    async run(bench) {
      const results = await Promise.all(FIFTY.map((owner) => bench.begin(owner)));
      checkEqual(results.filter(({ state }) => state === "started").length, 1, "callers that started");
      checkEqual(
        results.filter(({ state }) => state === "in-progress").length,
        49,
        "callers that found the key in progress",
      );
    },
  },
  {
    title: "starts exactly one of 50 concurrent callers after an expired lease",
    async run(bench) {
      await bench.abandon("abandoned");
      const results = await Promise.all(FIFTY.map((owner) => bench.begin(owner)));
      const started = results.filter(({ state }) => state === "started");
      checkEqual(started, [{ state: "started", attempt: 2 }], "callers that started");
    },
  },
  {
    title: "replays the response to 50 concurrent callers",
    async run(bench) {
      await bench.checkStarted("a", 1);
      checkEqual(await bench.complete("a"), true, "complete");
      await Promise.all(FIFTY.map(() => bench.checkCompleted(textResponse("a"))));
    },
  },
  {
    title: "starts again for the owner of the claim, with the same attempt",
    async run(bench) {
      await bench.checkStarted("a", 1, { leaseMs: SHORT_MS });
      await bench.checkStarted("a", 1);
      await bench.advance(SHORT_MS);
      await bench.checkInProgress();
    },
  },
  {
    title: "reports whether the fingerprints are equal while in progress",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await bench.checkInProgress(true, { fingerprint: "f1" });
      await bench.checkInProgress(false, { fingerprint: "f2" });
    },
  },
  {
    title: "reports whether the fingerprints are equal after completion",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await bench.complete("a");
      await bench.checkCompleted(textResponse("a"), { fingerprint: "f1" });
      await bench.checkCompleted(textResponse("a"), { fingerprint: "f2" }, false);
    },
  },
  {
    title: "keeps the fingerprint of the owner after a conflict",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await bench.checkInProgress(false, { fingerprint: "f2" });
      await bench.checkInProgress(true, { fingerprint: "f1" });
      await bench.complete("a");
      await bench.checkCompleted(textResponse("a"), { fingerprint: "f2" }, false);
      await bench.checkCompleted(textResponse("a"), { fingerprint: "f1" });
    },
  },
  {
    title: "compares whole fingerprints",
    async run(bench) {
      const fingerprint = "aB".repeat(64);
      await bench.checkStarted("a", 1, { fingerprint });
      await bench.checkInProgress(true, { fingerprint });
      for (const other of [fingerprint.toLowerCase(), fingerprint.slice(1), `${fingerprint.slice(1)}-`, "aB"]) {
        await bench.checkInProgress(false, { fingerprint: other });
      }
    },
  },
  {
    title: "takes the fingerprint of the caller that starts after an expired lease",
    async run(bench) {
      await bench.abandon("abandoned");
      await bench.checkStarted("b", 2, { fingerprint: "f2", leaseMs: LONG_MS });
      await bench.checkInProgress(false, { fingerprint: "f1" });
      await bench.checkInProgress(true, { fingerprint: "f2" });
    },
  },
];
