/** Cases about time: expired leases, takeovers, late owners, and TTLs. */
import { monotonicMs } from "../../base/clock.ts";
import type { IdempotencyKey } from "../../idempotency/idempotency-store.ts";
import { check, checkEqual } from "../check.ts";
import { type IdempotencyBench, type IdempotencyCase, LONG_MS, SHORT_MS, textResponse } from "./bench.ts";

export const leaseCases: readonly IdempotencyCase[] = [
  {
    title: "starts with attempt 2 after an expired lease",
    async run(bench) {
      await bench.abandon("a");
      await bench.checkStarted("b", 2);
      await bench.checkInProgress();
    },
  },
  {
    title: "counts every expired lease",
    async run(bench) {
      for (const attempt of [1, 2, 3, 4]) await bench.abandon(`owner-${attempt}`, attempt);
      await bench.checkStarted("last", 5);
    },
  },
  {
    title: "extends a lease by a renewal",
    async run(bench) {
      await bench.checkStarted("a", 1, { leaseMs: SHORT_MS });
      checkEqual(await bench.store.renew(bench.id(), "a", LONG_MS), true, "renew");
      await bench.advance(SHORT_MS);
      const leaseMs = await bench.checkInProgress();
      check(leaseMs > LONG_MS / 2, `the rest of the renewed lease is ${leaseMs}`);
    },
  },
  {
    title: "counts a renewed lease from the renewal",
    async run(bench) {
      await bench.checkStarted("a", 1);
      checkEqual(await bench.store.renew(bench.id(), "a", SHORT_MS), true, "renew");
      await bench.advance(SHORT_MS);
      await bench.checkStarted("b", 2);
    },
  },
  {
    title: "keeps a renewed claim for longer than its TTL",
    async run(bench) {
      const { ttlMs, id } = await afterBegin(bench, (id) => bench.store.renew(id, "a", LONG_MS));
      await bench.advance(ttlMs);
      await bench.checkInProgress(true, id);
      checkEqual(await bench.complete("a", textResponse("a"), id), true, "complete");
    },
  },
  {
    title: "rejects a late renewal after another owner has started",
    async run(bench) {
      await bench.abandon("a");
      await bench.checkStarted("b", 2);
      checkEqual(await bench.store.renew(bench.id(), "a", SHORT_MS), false, "the late renewal");
      await bench.advance(SHORT_MS);
      await bench.checkInProgress();
    },
  },
  {
    title: "rejects a late response after another owner has started",
    async run(bench) {
      await bench.abandon("a");
      await bench.checkStarted("b", 2);
      checkEqual(await bench.complete("a"), false, "the late response");
      await bench.checkInProgress();
    },
  },
  {
    title: "ignores a late release after another owner has started",
    async run(bench) {
      await bench.abandon("a");
      await bench.checkStarted("b", 2);
      await bench.store.release(bench.id(), "a");
      await bench.checkInProgress();
    },
  },
  {
    title: "stores the response of the owner that has taken over",
    async run(bench) {
      await bench.abandon("a");
      await bench.checkStarted("b", 2);
      checkEqual(await bench.store.renew(bench.id(), "b", LONG_MS), true, "renew by the new owner");
      checkEqual(await bench.complete("b"), true, "complete by the new owner");
      checkEqual(await bench.complete("a"), false, "the late response");
      await bench.checkCompleted(textResponse("b"));
    },
  },
  {
    title: "accepts a response after an expired lease if no other owner has started",
    async run(bench) {
      await bench.abandon("a");
      checkEqual(await bench.complete("a"), true, "the late response");
      await bench.checkCompleted(textResponse("a"));
    },
  },
  {
    title: "accepts a renewal after an expired lease if no other owner has started",
    async run(bench) {
      await bench.abandon("a");
      checkEqual(await bench.store.renew(bench.id(), "a", LONG_MS), true, "the late renewal");
      await bench.checkInProgress();
    },
  },
  {
    title: "keeps earlier attempts counted after a release",
    async run(bench) {
      await bench.abandon("a");
      await bench.checkStarted("b", 2);
      await bench.store.release(bench.id(), "b");
      await bench.checkStarted("c", 2, { fingerprint: "f2" });
      await bench.checkInProgress(true, { fingerprint: "f2" });
    },
  },
  {
    title: "rejects every earlier owner after a release",
    async run(bench) {
      await bench.abandon("a");
      await bench.checkStarted("b", 2);
      await bench.store.release(bench.id(), "b");
      for (const owner of ["a", "b"]) {
        checkEqual(await bench.store.renew(bench.id(), owner, LONG_MS), false, `renew by ${owner}`);
        checkEqual(await bench.complete(owner), false, `complete by ${owner}`);
      }
      await bench.checkStarted("c", 2);
    },
  },
  {
    title: "deletes a response after its TTL",
    async run(bench) {
      await bench.checkStarted("a", 1);
      checkEqual(await bench.complete("a", textResponse("a"), bench.id(), SHORT_MS), true, "complete");
      // A retry does not extend the TTL. If the machine was slow, it starts, with a claim that ends at once.
      await bench.begin("retry", { leaseMs: 1, ttlMs: 1 });
      await bench.advance(SHORT_MS);
      await bench.checkStarted("b", 1, { fingerprint: "f2" });
    },
  },
  {
    title: "keeps a response for longer than the lease and the TTL of its claim",
    async run(bench) {
      const { ttlMs, id } = await afterBegin(bench, (id) => bench.complete("a", textResponse("a"), id));
      await bench.advance(ttlMs);
      await bench.checkCompleted(textResponse("a"), id);
    },
  },
  {
    title: "deletes an abandoned claim after its TTL",
    async run(bench) {
      await bench.checkStarted("a", 1, { leaseMs: SHORT_MS, ttlMs: SHORT_MS });
      await bench.advance(SHORT_MS);
      await bench.checkStarted("b", 1);
    },
  },
];

/**
 * Begins a key with a TTL that ends soon, and renews or completes it by `hold` before that. Takes more time if a busy
 * machine was too slow.
 */
async function afterBegin(
  bench: IdempotencyBench,
  hold: (id: IdempotencyKey) => Promise<boolean>,
): Promise<{ ttlMs: number; id: IdempotencyKey }> {
  for (const ttlMs of [5 * SHORT_MS, 25 * SHORT_MS, 250 * SHORT_MS]) {
    const id = bench.id(`TTL ${ttlMs}`);
    const begunAt = monotonicMs();
    await bench.checkStarted("a", 1, { ...id, leaseMs: SHORT_MS, ttlMs });
    const isHeld = await hold(id);
    if (isHeld || monotonicMs() - begunAt < ttlMs) {
      checkEqual(isHeld, true, "the owner, within its TTL");
      return { ttlMs, id };
    }
  }
  throw new Error("The store was too slow for this case.");
}
