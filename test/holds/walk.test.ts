/** Tests holds, concurrency limits and penalties against the model with random walks. */

import { decide, decideGroup } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import { leastCount } from "../../scripts/scale.js";
import { defaultMaxHolds } from "../../src/policy/max-holds.ts";
import { SEED, STEPS as TOTAL_STEPS } from "../settings.ts";
import { checkBound, checkEnds } from "./bound.ts";
import { HELD_ALGORITHMS } from "./held-samples.ts";
import { type Tally, walkHeld } from "./held-walk.ts";
import { walkPenalty } from "./penalty-walk.ts";

/** Steps per algorithm: 33 334, and 200 000 in stress/holds-model.js. */
const STEPS = Math.ceil(TOTAL_STEPS / 30);
/** Traces and cases: 3334, and 20 000 in stress/holds-model.js. */
const TRACES = Math.ceil(TOTAL_STEPS / 300);

describe(`random walks with holds (seed ${SEED})`, () => {
  const engine = { decide, maxHolds: defaultMaxHolds(1, false) };

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
    for (const kind of kinds) expect(tally.get(kind) ?? 0, kind).toBeGreaterThan(leastCount(STEPS / 1000));
  }
});

describe(`actual use (seed ${SEED})`, () => {
  test("stays within the bound of the policy over every interval, which is reached", () => {
    const tally = checkBound(decide, TRACES, SEED);
    expect(tally.get("least room")).toBe(0);
    for (const name of HELD_ALGORITHMS) expect(tally.get(name), name).toBeGreaterThan(leastCount(TRACES / 10));
    expect(tally.get("settled jobs")).toBeGreaterThan(TRACES);
    expect(tally.get("jobs that were never settled")).toBeGreaterThan(TRACES);
  });

  test("exceeds the bound by at most one limit per loss of the stored state", () => {
    expect(checkBound(decide, TRACES, SEED, true).get("losses")).toBeGreaterThan(TRACES / 2);
  });

  test("is charged in full at the end of a hold that is never settled, however late it is read", () => {
    checkEnds(decide, TRACES, SEED);
  });
});
