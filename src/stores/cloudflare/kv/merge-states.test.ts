/** Property test of merged states. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CompiledPolicy } from "../../../core/compiled-policy.ts";
import { decide } from "../../../core/decide.ts";
import type { PlainState } from "../../../core/state.ts";
import { compilePolicy } from "../../../policy/compile-policy.ts";
import { mergeStates } from "./merge-states.ts";

function take(state: PlainState, policy: CompiledPolicy, cost: number, now: number): PlainState {
  return decide(state.length > 0 ? state : undefined, { policy, key: "k", cost, mode: "take" }, now)
    .state as PlainState;
}

describe("mergeStates", () => {
  const policies = (["fixed-window", "sliding-window", "sliding-log"] as const).map((algorithm) =>
    compilePolicy({ algorithm, limit: 1000, windowMs: 100 }),
  );

  it.each(policies)("$algorithm: equals the state that counted all grants", (policy) => {
    const grants = fc.array(
      fc.record({ gap: fc.integer({ min: 0, max: 60 }), cost: fc.integer({ min: 1, max: 3 }), here: fc.boolean() }),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(grants, fc.integer({ min: 0, max: 250 }), (grants, later) => {
        let [here, there, all]: [PlainState, PlainState, PlainState] = [[], [], []];
        let now = 1_790_000_000_000;
        for (const { gap, cost, here: isHere } of grants) {
          now += gap;
          all = take(all, policy, cost, now);
          if (isHere) here = take(here, policy, cost, now);
          else there = take(there, policy, cost, now);
        }
        const peek = (state: PlainState) =>
          decide(state.length > 0 ? state : undefined, { policy, key: "k", cost: 990, mode: "peek" }, now + later)
            .decision;
        const merged = mergeStates(here, there, policy);
        expect(peek(merged)).toEqual(peek(all));
        expect(mergeStates(there, here, policy)).toEqual(merged);
      }),
      { numRuns: 2000 },
    );
  });
});
