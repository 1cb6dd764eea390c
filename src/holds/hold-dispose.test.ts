/** Tests that `dispose` releases the leases of a limiter and keeps amounts of rates held. */
import { combine, concurrency, createLimiter, hold, memoryStore, tokenBucket } from "sluice";
import { expect, it } from "vitest";

const name = { name: "shared", share: true };

it("releases the leases of this limiter on dispose, and not those of others", async () => {
  const store = memoryStore();
  const [ours, theirs] = [1, 2].map(() => createLimiter({ policy: concurrency(5, name), store }));
  if (!ours || !theirs) throw new Error("no limiters");
  await Promise.all([hold(ours, "k"), hold(ours, "k"), hold(theirs, "k")]);
  expect((await theirs.peek("k")).held).toBe(3);
  await ours.dispose();
  expect((await theirs.peek("k")).held).toBe(1);
});

it("keeps amounts of a rate held, because the work was probably done", async () => {
  const store = memoryStore();
  const tokens = createLimiter({ policy: tokenBucket("100/h", name), store });
  const streams = createLimiter({ policy: concurrency(5), store });
  await hold(combine([tokens, streams]), "k", 30);
  await Promise.all([tokens.dispose(), streams.dispose()]);
  const again = createLimiter({ policy: tokenBucket("100/h", name), store });
  const free = createLimiter({ policy: concurrency(5), store });
  expect((await again.peek("k")).held).toBe(30);
  expect((await free.peek("k")).held).toBeUndefined();
});
