/** Random groups of charges with holds on a store, compared with the pure function. */

import type { Charge, Group } from "../../core/charge.ts";
import type { CompiledPolicy, Mode } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import type { State } from "../../core/state.ts";
import { holdTerms } from "../../holds/hold-terms.ts";
import { decideGroup } from "../../holds/with-holds.ts";
import { bareLimiter } from "../bare-limiter.ts";
import { check, checkEqual, comparedFields } from "../check.ts";
import type { Random } from "../random.ts";
import { policyOf } from "../subject.ts";
import { windowPhase } from "./law.ts";
import type { StoreBench } from "./store-law.ts";

const RATE_MODES: readonly Mode[] = [
  ...(["take", "take", "hold", "hold", "hold", "settle", "settle", "peek", "refund", "reset"] as const),
];
const PENALTY_MODES: readonly Mode[] = [
  "penalty",
  "penalty",
  "penalty",
  "take",
  "hold",
  "settle",
  "peek",
  "refund",
  "reset",
];
const IDS = ["a", "b", "c"];

/**
 * Makes the same random groups of charges on a store and with the pure function, and compares every field of the
 * decisions. `policies` share the keys of a group; those with one id are plans of one bucket.
 */
export async function compareGroupsWithPure(
  bench: StoreBench,
  policies: readonly CompiledPolicy[],
  spanMs: number,
  steps: number,
): Promise<void> {
  const { random } = bench;
  const { store, advance } = await bench.createTimed();
  check(advance !== undefined, "this case needs time: return { store, advance } from create");
  // Windows start at multiples of their length, so the pure function needs the position of the store's clock.
  const clock = bareLimiter(policyOf("fixed-window", 1, spanMs, "phase"), store);
  let now = await windowPhase({ limiter: clock });
  const states = new Map<string, State>();
  const stateOf = ({ policy, key }: Charge): string => `${policy.id} ${key}`;
  const gaps = [0, 0, 0, 1, 5, spanMs, Math.ceil(spanMs / 10), Math.ceil(spanMs / 3)];
  for (let step = 0; step < steps; step++) {
    const gap = random.pick([...gaps, random.whole(0, 2 * spanMs), -random.whole(0, spanMs)]);
    const group = nextGroup(random, policies, spanMs);
    if (gap < 0) {
      // A store may or may not have dropped a full bucket, and a clock step back would show which.
      const resets = policies.flatMap((policy) =>
        ["k", "l"].map((key): Charge => ({ policy, key, cost: 0, mode: "peek" })),
      );
      for (const peek of resets) {
        const [result] = decideGroup([peek], () => states.get(stateOf(peek)), now);
        if (result?.decision.resetAfterMs !== 0) continue;
        states.delete(stateOf(peek));
        await store.apply([[{ ...peek, mode: "reset" }]]);
      }
    }
    await advance(gap);
    now += gap;
    const results = decideGroup(group, (charge) => states.get(stateOf(charge)), now);
    for (const [i, { changed, state }] of results.entries()) {
      if (changed) states.set(stateOf(group[i] as Charge), state);
    }
    const [decisions] = await store.apply([group]);
    const text = group.map(({ mode, cost, hold, policy }) => `${mode} ${cost} ${hold?.id ?? ""} of ${policy.limit}`);
    checkEqual(
      decisions?.map(comparedFields),
      results.map(({ decision }) => comparedFields(decision as Decision)),
      `step ${step}: ${text.join(" and ")} at ${now}`,
    );
  }
}

function nextGroup(random: Random, policies: readonly CompiledPolicy[], spanMs: number): Group {
  const key = random.pick(["k", "k", "l"]);
  const chosen: CompiledPolicy[] = [random.pick(policies)];
  for (const policy of policies) {
    // At most one plan of a bucket.
    if (chosen.every(({ id }) => id !== policy.id) && random.whole(0, 2) > 0) chosen.push(policy);
  }
  return chosen.map((policy): Charge => nextCharge(random, policy, key, spanMs));
}

function nextCharge(random: Random, policy: CompiledPolicy, key: string, spanMs: number): Charge {
  const { holdsOnly, block } = policy.algorithm;
  const mode = random.pick(block ? PENALTY_MODES : RATE_MODES);
  const costs = [1, 1, 2, 3, random.whole(0, policy.limit), policy.limit, policy.limit + 1, 2 * policy.limit];
  const cost = block ? random.pick([1, 1, 2]) : random.pick(costs);
  const charge = { policy, key, cost, mode };
  if (mode === "settle") return { ...charge, cost: holdsOnly || block ? 0 : cost, hold: holdTerms(random.pick(IDS)) };
  if (mode !== "hold") return charge;
  const forMs = Math.max(1, random.pick([1, random.whole(1, spanMs), spanMs, 3 * spanMs]));
  return { ...charge, cost: Math.max(1, cost), hold: holdTerms(random.pick(IDS), forMs) };
}
