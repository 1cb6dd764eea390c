/** A random walk of a limiter beside the pure function. */

import { compilePolicy } from "../../algorithms/compile-policy.ts";
import { decide } from "../../algorithms/decide.ts";
import type { Mode } from "../../core/charge.ts";
import type { Decision } from "../../core/decision.ts";
import { figures, same } from "../check.ts";
import { maxLimitOf, policyOf } from "../subject.ts";
import { type Bench, pass, phase } from "./law.ts";

/** Charges a limiter and the pure function alike and compares every figure. */
export async function walk(bench: Bench, limit: number, spanMs: number, steps: number): Promise<void> {
  const { random } = bench;
  const policy = policyOf(bench.algorithm, Math.min(limit, maxLimitOf(bench.algorithm)), spanMs);
  const compiled = compilePolicy(policy);
  const subject = await bench.create(policy);
  const { limiter } = subject;
  let now = await phase(subject);
  let state: readonly number[] | undefined;
  let idle = true;
  const gaps = [0, 0, 1, 50, 70, 99, spanMs, Math.ceil(spanMs / compiled.limit)];
  for (let i = 0; i < steps; i++) {
    const gap = random.pick([...gaps, random.whole(0, 2 * spanMs), -random.whole(0, Math.min(now, 3 * spanMs))]);
    if (gap < 0 && idle) {
      // A store may have forgotten a full bucket or not; a clock that steps back must not find out.
      await limiter.reset("user:1");
      state = undefined;
    }
    await pass(subject, gap);
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
    same(figures(decision), figures(outcome.decision), step);
  }
}
