/** Charges in mode `penalty` on a bucket with holds, decided like those on a bucket without. */

import { describe, expect, it } from "vitest";
import type { Charge } from "../core/charge.ts";
import type { State } from "../core/state.ts";
import { penalty } from "../penalties/penalty.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import { concurrency } from "./concurrency.ts";
import { decide, decideGroup } from "./with-holds.ts";

const NOW = 1_790_000_000_000;
const rate = compilePolicy({ algorithm: "fixed-window", limit: 1, windowMs: 60_000, name: "rate" });
const counted = compilePolicy({ algorithm: "fixed-window", limit: 5, windowMs: 60_000, name: "counted" });
const charge = (policy: Charge["policy"], cost: number, mode: Charge["mode"]): Charge => {
  return { policy, key: "k", cost, mode, hold: mode === "hold" ? { id: "h", forMs: 30_000 } : undefined };
};

describe("a charge in mode penalty on a bucket with holds", () => {
  const usedUp = decide(undefined, charge(rate, 1, "take"), NOW).state;
  const withHold = decide(undefined, charge(counted, 2, "hold"), NOW).state;
  const strike = (state: State | undefined) => {
    const group = [charge(rate, 1, "take"), charge(counted, 2, "penalty")];
    return decideGroup(group, ({ policy }) => (policy === rate ? usedUp : state), NOW)[1];
  };

  it("is taken if another charge of its group is denied, as without holds", () => {
    expect(strike(undefined)).toMatchObject({ changed: true, decision: { allowed: true, remaining: 3 } });
    expect(strike(withHold)).toMatchObject({ changed: true, decision: { allowed: false, remaining: 1, held: 2 } });
  });

  it("clamps a state dated in the future if it is denied, as without holds", () => {
    const before = NOW - 5000;
    const full = decide(
      decide(undefined, charge(counted, 3, "take"), NOW).state,
      charge(counted, 2, "hold"),
      NOW,
    ).state;
    const denied = decide(full, charge(counted, 1, "penalty"), before);
    expect(denied).toMatchObject({ changed: true, state: { writtenAt: before, holds: [{ end: before + 30_000 }] } });
    expect(decide(full, charge(counted, 1, "peek"), before).changed).toBe(false);
  });
});

describe("maxHolds", () => {
  it.each([
    [{ capacity: 5, tokensPerSecond: 1, maxHolds: 0 }, "maxHolds"],
    [{ capacity: 5, tokensPerSecond: 1, maxHolds: 1001 }, "maxHolds"],
    [{ capacity: 5, tokensPerSecond: 1, maxHolds: "5" }, "maxHolds"],
    [{ algorithm: "leaky-bucket", capacity: 5, leaksPerSecond: 1, maxHolds: 5 }, "maxHolds"],
    [{ ...penalty({ blockMs: 5 }), maxHolds: 5 }, "maxHolds"],
  ])("is rejected: %j", (policy, option) => {
    expect(() => compilePolicy(policy as never)).toThrow(expect.objectContaining({ option }));
  });

  it("belongs to the fingerprint of a policy, and not to the name of its buckets", () => {
    const policy = compilePolicy({ capacity: 5, tokensPerSecond: 1 });
    const other = compilePolicy({ capacity: 5, tokensPerSecond: 1, maxHolds: 7 });
    expect([policy.maxHolds, other.maxHolds, other.id]).toEqual([200, 7, policy.id]);
    expect(other.fingerprint).not.toBe(policy.fingerprint);
  });

  it.each([
    [5, 200],
    [700, 700],
    [5000, 1000],
  ])("of a concurrency limit of %i is %i", (limit, maxHolds) => {
    expect(compilePolicy(concurrency(limit)).maxHolds).toBe(maxHolds);
  });
});
