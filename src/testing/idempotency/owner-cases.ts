/** Cases about owners: only the owner of a claim renews, completes or releases it. */
import { checkEqual } from "../check.ts";
import { type IdempotencyCase, LONG_MS, SHORT_MS, textResponse } from "./bench.ts";

export const ownerCases: readonly IdempotencyCase[] = [
  {
    title: "renews the claim of its owner",
    async run(bench) {
      await bench.checkStarted("a", 1);
      for (let i = 0; i < 3; i++) checkEqual(await bench.store.renew(bench.id(), "a", LONG_MS), true, "renew");
      await bench.checkInProgress();
    },
  },
  {
    title: "does not renew for another owner",
    async run(bench) {
      await bench.checkStarted("a", 1, { leaseMs: SHORT_MS });
      checkEqual(await bench.store.renew(bench.id(), "b", LONG_MS), false, "renew by another owner");
      await bench.advance(SHORT_MS);
      await bench.checkStarted("c", 2);
    },
  },
  {
    title: "rejects renewals and responses for an unknown key, and creates nothing",
    async run(bench) {
      checkEqual(await bench.store.renew(bench.id(), "a", LONG_MS), false, "renew");
      checkEqual(await bench.complete("a"), false, "complete");
      await bench.checkStarted("b", 1);
    },
  },
  {
    title: "stores a response of the owner only",
    async run(bench) {
      await bench.checkStarted("a", 1);
      checkEqual(await bench.complete("b"), false, "complete by another owner");
      await bench.checkInProgress();
      checkEqual(await bench.complete("a"), true, "complete by the owner");
      await bench.checkCompleted(textResponse("a"));
    },
  },
  {
    title: "stores one of 50 concurrent responses: that of the owner",
    async run(bench) {
      await bench.checkStarted("owner-25", 1);
      const owners = Array.from({ length: 50 }, (_, i) => `owner-${i}`);
      const stored = await Promise.all(owners.map((owner) => bench.complete(owner)));
      checkEqual(
        owners.filter((_, i) => stored[i]),
        ["owner-25"],
        "owners whose response was stored",
      );
      await bench.checkCompleted(textResponse("owner-25"));
    },
  },
  {
    title: "releases the claim of the owner only",
    async run(bench) {
      await bench.store.release(bench.id(), "a");
      await bench.checkStarted("a", 1);
      await bench.store.release(bench.id(), "b");
      await bench.checkInProgress();
    },
  },
  {
    title: "starts with attempt 1 after a release",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await bench.store.release(bench.id(), "a");
      await bench.checkStarted("b", 1, { fingerprint: "f2" });
      await bench.checkInProgress(true, { fingerprint: "f2" });
    },
  },
  {
    title: "rejects renewals and responses after a release",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await bench.store.release(bench.id(), "a");
      checkEqual(await bench.store.renew(bench.id(), "a", LONG_MS), false, "renew");
      checkEqual(await bench.complete("a"), false, "complete");
      await bench.checkStarted("b", 1);
    },
  },
  {
    title: "rejects a renewal after completion, and keeps the response",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await bench.complete("a");
      checkEqual(await bench.store.renew(bench.id(), "a", LONG_MS), false, "renew");
      await bench.checkCompleted(textResponse("a"));
    },
  },
  {
    title: "keeps the response when a claim is released after completion",
    async run(bench) {
      await bench.checkStarted("a", 1);
      await bench.complete("a");
      await bench.store.release(bench.id(), "a");
      await bench.store.release(bench.id(), "b");
      await bench.checkCompleted(textResponse("a"));
    },
  },
  {
    title: "keeps the first response when a key is completed twice",
    async run(bench) {
      await bench.checkStarted("a", 1);
      checkEqual(await bench.complete("a"), true, "the first response");
      checkEqual(await bench.complete("a", textResponse("second")), true, "sent again by its owner");
      checkEqual(await bench.complete("b"), false, "a response of another owner");
      await bench.checkCompleted(textResponse("a"));
    },
  },
  {
    title: "compares whole owners",
    async run(bench) {
      const owner = "aB".repeat(64);
      await bench.checkStarted(owner, 1);
      for (const other of [owner.toLowerCase(), owner.slice(1), `${owner.slice(1)}-`, "aB", "."]) {
        checkEqual(await bench.store.renew(bench.id(), other, LONG_MS), false, "renew by a similar owner");
        checkEqual(await bench.complete(other), false, "complete by a similar owner");
        await bench.store.release(bench.id(), other);
      }
      checkEqual(await bench.complete(owner), true, "complete by the owner");
    },
  },
];
