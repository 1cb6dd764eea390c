/** Tests holds, concurrency limits and penalties against the model with random walks. */
import { decide, decideGroup } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import { MAX_HOLDS } from "../../src/algorithms/held-state.ts";
import { SEED } from "../settings.ts";
import { checkBound, checkEnds } from "./bound.ts";
import { HELD_ALGORITHMS } from "./held-samples.ts";
import { type Tally, walkHeld } from "./held-walk.ts";
import { walkPenalty } from "./penalty-walk.ts";

/** Steps per algorithm. stress/holds-model.js runs more. */
const STEPS = 34_000;

describe(`random walks with holds (seed ${SEED})`, () => {
  const engine = { decide, maxHolds: MAX_HOLDS };

  test.each(HELD_ALGORITHMS)("make the same decisions with a %s as the model", (name) => {
    const tally = walkHeld(engine, name, STEPS, SEED);
    expectKinds(tally, ["hold done", "hold not done", "settle done", "settle not done", "take not done", "clamps"]);
    expectKinds(tally, [
      "backward steps",
      "plan changes",
      "denials",
      "denials because of holds",
      "steps without holds",
    ]);
    if (name !== "concurrency") expectKinds(tally, ["in debt", "forgiven"]);
    expect(tally.get("waits tried")).toBeGreaterThan(STEPS);
  });

  test("make the same decisions with a penalty as the model", () => {
    const tally = walkPenalty({ decide, decideGroup }, STEPS, SEED);
    expectKinds(tally, ["violations", "denied by the block", "admitted", "no violation", "strike", "forget", "block"]);
    expectKinds(tally, ["unblock", "reset", "look", "backward steps", "plan changes"]);
  });

  function expectKinds(tally: Tally, kinds: readonly string[]): void {
    for (const kind of kinds) expect(tally.get(kind), kind).toBeGreaterThan(STEPS / 1000);
  }
});

describe(`actual use (seed ${SEED})`, () => {
  test("stays within the bound of the policy over every interval, which is reached", () => {
    const tally = checkBound(decide, 2000, SEED);
    expect(tally.get("least room")).toBe(0);
    for (const name of HELD_ALGORITHMS) expect(tally.get(name), name).toBeGreaterThan(200);
    expect(tally.get("settled jobs")).toBeGreaterThan(2000);
    expect(tally.get("jobs that were never settled")).toBeGreaterThan(2000);
  });

  test("is charged in full at the end of a hold that is never settled, however late it is read", () => {
    checkEnds(decide, 4000, SEED);
  });
});
