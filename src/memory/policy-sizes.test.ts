/** Tests the ranking of policies by size against a plain list. */
import { expect, it } from "vitest";
import { PolicySizes, type Sized } from "./policy-sizes.ts";

it("returns the largest policy and the number of policies with keys over 50 000 random changes", () => {
  const sizes = new PolicySizes<Sized>();
  const policies = Array.from({ length: 40 }, (): Sized => ({ size: 0, place: 0 }));
  let seed = 13;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % below;
  };
  for (let step = 0; step < 50_000; step++) {
    // Policies change at different rates, and each is empty at times.
    const policy = policies[random(1 + random(policies.length))] as Sized;
    if (policy.size > 0 && random(step % 1000 < 500 ? 3 : 2) > 0) sizes.decrement(policy);
    else sizes.increment(policy);
    const withKeys = policies.filter(({ size }) => size > 0);
    expect(sizes.count).toBe(withKeys.length);
    if (withKeys.length === 0) continue;
    expect(sizes.largest.size).toBe(Math.max(...withKeys.map(({ size }) => size)));
    expect(sizes.pick(random(1000) / 1000).size).toBeGreaterThan(0);
  }
  sizes.clear();
  expect([sizes.count, policies.every(({ size }) => size === 0)]).toEqual([0, true]);
});
