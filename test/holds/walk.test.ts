/** Tests holds, concurrency limits and penalties against the model with random walks. */
import { decide } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import { MAX_HOLDS } from "../../src/algorithms/held-state.ts";
import { SEED } from "../settings.ts";
import { HELD_ALGORITHMS } from "./held-samples.ts";
import { walkHeld } from "./held-walk.ts";

/** Steps of each algorithm. */
const STEPS = 34_000;

describe(`random walks with holds (seed ${SEED})`, () => {
  const engine = { decide, maxHolds: MAX_HOLDS };

  test.each(HELD_ALGORITHMS)("make the same decisions with a %s as the model", (name) => {
    const tally = walkHeld(engine, name, STEPS, SEED);
    console.log(name, tally);
    expect(tally.get("steps")).toBe(STEPS);
  });
});
