/** Random charges of two plans that share buckets, and a check that each plan stays within its bound. */

import type { Charge, Group } from "../core/charge.ts";
import type { CompiledPolicy, Mode } from "../core/compiled-policy.ts";
import type { Decision } from "../core/decision.ts";
import type { AlgorithmName, Policy } from "../core/policy.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import type { Random } from "./random.ts";
import { policyOf } from "./subject.ts";

/** The groups of one instant. */
export interface PlanBatch {
  /** Milliseconds since the previous batch. */
  readonly advanceMs: number;
  readonly groups: readonly Group[];
}

/** Two plans with one name and the same window or fill time, but different limits. */
export function planPair(
  algorithm: AlgorithmName,
  random: Random,
  name = "plan",
): readonly [CompiledPolicy, CompiledPolicy] {
  const spanMs = random.pick([1, 2, 7, 100, 1000, 3333, 60_000, random.whole(1, 100_000)]);
  const plan = (limit: number) => compilePolicy({ ...policyOf(algorithm, limit, spanMs, name), share: true } as Policy);
  return [plan(random.whole(1, 12)), plan(random.pick([13, 100, 1000, random.whole(13, 2000)]))];
}

/** Batches of random charges to a few keys. */
export function* planBatches(plans: readonly CompiledPolicy[], random: Random, steps: number): Generator<PlanBatch> {
  const keys = ["a", "b", "c"];
  for (let step = 0; step < steps; ) {
    const { windowMs } = plans[0] as CompiledPolicy;
    const advanceMs = random.pick([
      0,
      0,
      1,
      1,
      random.whole(0, Math.ceil(windowMs / 10)),
      random.whole(0, 3 * windowMs),
    ]);
    const groups = Array.from({ length: random.whole(1, 8) }, (): Group => {
      const policy = random.pick(plans);
      const cost = random.pick([1, 1, 1, 2, random.whole(1, policy.limit), policy.limit]);
      return [
        { policy, key: random.pick(keys), cost, mode: random.pick<Mode>(["take", "take", "take", "peek", "refund"]) },
      ];
    });
    step += groups.length;
    yield { advanceMs, groups };
  }
}

/**
 * Sums the granted costs per plan and key, and throws if a plan exceeds its bound over any interval: capacity plus rate
 * for buckets, the limit per window for windows. A refund by any plan counts for all. Time must not go backwards.
 */
export class PlanBounds {
  private readonly plans: readonly CompiledPolicy[];
  private readonly meters: Map<string, Meter> = new Map();

  constructor(plans: readonly CompiledPolicy[]) {
    this.plans = plans;
  }

  /** Records one charge and its decision at `now`. */
  record({ policy, key, cost, mode }: Charge, { allowed }: Decision, now: number): void {
    if (mode === "peek" || (mode === "take" && !allowed)) return;
    for (const plan of this.plans) {
      if (mode === "take" && plan !== policy) continue;
      const id = `${plan.limit} ${key}`;
      let meter = this.meters.get(id);
      if (!meter) this.meters.set(id, (meter = this.meterOf(plan)));
      const excess = meter(BigInt(mode === "take" ? cost : -cost), policy, now);
      if (excess !== undefined) throw new Error(`plan ${plan.limit} per ${plan.windowMs} ms: ${excess} at ${now}`);
    }
  }

  private meterOf(plan: CompiledPolicy): Meter {
    if (plan.refills) return bucketMeter(plan, this.plans);
    return plan.algorithm.list ? logMeter(plan) : windowMeter(plan);
  }
}

/** Adds a cost in tokens of the plan `by`. Returns a description if the bound is exceeded. */
type Meter = (cost: bigint, by: CompiledPolicy, now: number) => string | undefined;

/** The maximum, over all intervals up to now, of the cost admitted in excess of the rate. */
function bucketMeter(plan: CompiledPolicy, plans: readonly CompiledPolicy[]): Meter {
  // Scaled to units in which a token of every plan is a whole number.
  const scale = plans.reduce((product, { limit }) => product * BigInt(limit), 1n);
  const full = BigInt(plan.capacityUnits) * scale;
  let [level, last] = [0n, 0];
  return (cost, by, now) => {
    level -= BigInt(now - last) * BigInt(plan.unitsPerMs) * scale;
    last = now;
    level = (level > 0n ? level : 0n) + (cost * full) / BigInt(by.limit);
    if (level < 0n) level = 0n;
    return level > full ? `${level} of ${full} scaled capacity units` : undefined;
  };
}

function windowMeter({ limit, windowMs }: CompiledPolicy): Meter {
  let [start, count] = [0, 0n];
  return (cost, _by, now) => {
    const current = now - (now % windowMs);
    if (current !== start) [start, count] = [current, 0n];
    count += cost;
    if (count < 0n) count = 0n;
    return count > BigInt(limit) ? `${count} in one window` : undefined;
  };
}

function logMeter({ limit, windowMs }: CompiledPolicy): Meter {
  let grants: { at: number; cost: bigint }[] = [];
  return (cost, _by, now) => {
    grants = grants.filter(({ at }) => at > now - windowMs);
    grants.push({ at: now, cost });
    // The maximum over all start points: a refund before an interval does not count for it.
    let sum = 0n;
    for (const grant of grants) {
      sum += grant.cost;
      if (sum < 0n) sum = 0n;
    }
    return sum > BigInt(limit) ? `${sum} in ${windowMs} ms` : undefined;
  };
}
