/** Random calls to a limiter, compared with the pure function. */

import type { Mode } from "../../core/compiled-policy.ts";
import { decide } from "../../core/decide.ts";
import type { Decision } from "../../core/decision.ts";
import type { State } from "../../core/state.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";
import { checkEqual, comparedFields } from "../check.ts";
import { maxLimitOf, policyOf } from "../subject.ts";
import { advance, type Bench, windowPhase } from "./law.ts";

/** Makes the same random calls to a limiter and to the pure function, and compares every field of the decisions. */
export async function compareWithPure(bench: Bench, limit: number, spanMs: number, steps: number): Promise<void> {
  const { random } = bench;
  const policy = policyOf(bench.algorithm, Math.min(limit, maxLimitOf(bench.algorithm)), spanMs);
  const compiled = compilePolicy(policy);
  const subject = await bench.create(policy);
  const { limiter } = subject;
  let now = await windowPhase(subject);
  let state: State | undefined;
  let idle = true;
  const gaps = [0, 0, 1, 50, 70, 99, spanMs, Math.ceil(spanMs / compiled.limit)];
  for (let i = 0; i < steps; i++) {
    const gap = random.pick([...gaps, random.whole(0, 2 * spanMs), -random.whole(0, Math.min(now, 3 * spanMs))]);
    if (gap < 0 && idle) {
      // A store may or may not have dropped a full bucket, and a clock step back would show which.
      await limiter.reset("user:1");
      state = undefined;
    }
    await advance(subject, gap);
    now += gap;
    const cost = random.pick([0, 1, 1, 1, 2, random.whole(1, compiled.limit), compiled.limit, compiled.limit + 1]);
    const mode = random.pick<Mode | "reset">(["take", "take", "take", "take", "peek", "refund", "reset"]);
    const step = `step ${i}: ${mode} ${cost} at ${now} under ${compiled.name}`;
    if (mode === "reset") {
      await limiter.reset("user:1");
      state = undefined;
      continue;
    }
    const outcome = decide(state, { policy: compiled, key: "user:1", cost, mode }, now);
    if (outcome.changed) state = outcome.state;
    idle = outcome.decision.resetAfterMs === 0;
    if (mode === "refund") {
      await limiter.refund("user:1", cost);
      continue;
    }
    const decision: Decision = await (mode === "take" ? limiter.consume("user:1", cost) : limiter.peek("user:1", cost));
    checkEqual(comparedFields(decision), comparedFields(outcome.decision), step);
  }
}
