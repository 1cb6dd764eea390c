/** Reads the metrics of an observer. Nothing is computed before they are read. */
import { DURATION_BOUNDS } from "./histogram.ts";
import type { LabelTable } from "./label-table.ts";
import type { MemoryWatch } from "./memory-watch.ts";
import type { Metric, MetricSample } from "./metric.ts";
import { OUTCOMES } from "./outcomes.ts";
import type { PolicyCounts } from "./policy-counters.ts";
import type { RuleCounts } from "./rule-counts.ts";
import type { StoreStats } from "./store-stats.ts";
import type { TopKeys } from "./top-keys.ts";

/** The state that metrics are read from. */
export interface MetricSources {
  readonly requestsByRule: LabelTable<RuleCounts>;
  readonly policies: LabelTable<PolicyCounts>;
  readonly stores: ReadonlyMap<object, StoreStats>;
  readonly memory: MemoryWatch;
  readonly challenges: LabelTable<Map<string, number>>;
  readonly idempotencyStates: ReadonlyMap<string, number>;
  readonly reloads: ReadonlyMap<string, number>;
  readonly rulesInForce: { readonly version: string } | undefined;
  readonly keys: TopKeys;
  now(): number;
}

/** All metrics, also those without samples: their names are known from the start. */
export function metricsOf(state: MetricSources): readonly Metric[] {
  const { stores, memory, policies, requestsByRule } = state;
  const services = [...stores.values()];
  const memories = [...memory.entries()];
  const byPolicy = [...policies.rows];
  const counter = (name: string, unit: string, labelNames: readonly string[], help: string, samples: MetricSample[]) =>
    ({ name, type: "counter", unit, labelNames, help, samples }) as const;
  const gauge = (name: string, unit: string, labelNames: readonly string[], help: string, samples: MetricSample[]) =>
    ({ name, type: "gauge", unit, labelNames, help, samples }) as const;
  return [
    counter(
      "requests_total",
      "{request}",
      ["rule", "outcome"],
      "Requests that were checked, by rule and outcome.",
      [...requestsByRule.rows].flatMap(([rule, { requests }]) => byOutcome({ rule }, requests)),
    ),
    counter(
      "decisions_total",
      "{decision}",
      ["policy", "outcome"],
      "Decisions by policy. A denied group counts for the policies that deny it.",
      byPolicy.flatMap(([policy, { decisions }]) => byOutcome({ policy }, decisions)),
    ),
    counter(
      "cost_total",
      "{unit}",
      ["policy", "outcome"],
      "Cost by policy, before refunds. Held amounts are counted when they are settled.",
      byPolicy.flatMap(([policy, { cost }]) => byOutcome({ policy }, cost)),
    ),
    {
      name: "decision_duration_seconds",
      type: "histogram",
      unit: "s",
      labelNames: ["store"],
      help: "Duration of calls to remote stores.",
      bounds: DURATION_BOUNDS,
      samples: services.map(({ name, durations }) => ({
        labels: { store: name },
        value: durations.count,
        buckets: durations.cumulative(),
        sum: durations.sum,
      })),
    },
    gauge(
      "store_up",
      "",
      ["store"],
      "1 if the store is available, 0 if its circuit is open.",
      services.map(({ name, isUp }) => ({ labels: { store: name }, value: isUp ? 1 : 0 })),
    ),
    counter(
      "store_errors_total",
      "{error}",
      ["store", "kind"],
      "Failed calls of remote stores, by kind.",
      services.flatMap(({ name, errors }) =>
        [...errors].map(([kind, value]) => ({ labels: { store: name, kind }, value })),
      ),
    ),
    counter(
      "degraded_decisions_total",
      "{decision}",
      ["policy"],
      "Decisions that were made without the store.",
      byPolicy.flatMap(([policy, { degraded }]) => nonZero({ policy }, degraded)),
    ),
    gauge(
      "memory_keys",
      "{key}",
      ["store"],
      "Keys in memory stores.",
      memories.map(([{ size }, store]) => ({ labels: { store }, value: size })),
    ),
    counter(
      "memory_evictions_total",
      "{key}",
      ["store"],
      "Keys in use that memory stores evicted.",
      memories.map(([{ evictions }, store]) => ({ labels: { store }, value: evictions })),
    ),
    gauge(
      "top_key_denied_per_second",
      "{denial}/s",
      ["rule"],
      "Denials per second of the most denied key of each rule.",
      [...state.keys.ratesByRule(state.now())].map(([rule, value]) => ({ labels: { rule }, value })),
    ),
    counter(
      "blocks_total",
      "{block}",
      ["policy"],
      "Blocks of keys that started, by penalty.",
      byPolicy.flatMap(([policy, { blocks }]) => nonZero({ policy }, blocks)),
    ),
    counter(
      "challenges_total",
      "{challenge}",
      ["rule", "result"],
      "Challenges. The rule is empty unless the challenge is issued.",
      challengeSamples(state.challenges.rows),
    ),
    counter(
      "idempotency_total",
      "{request}",
      ["state"],
      "Requests with an idempotency key, by state.",
      byName("state", state.idempotencyStates),
    ),
    gauge(
      "rules_info",
      "",
      ["version"],
      "1 for the version of the rules in force.",
      state.rulesInForce ? [{ labels: { version: state.rulesInForce.version }, value: 1 }] : [],
    ),
    counter(
      "rules_reloads_total",
      "{reload}",
      ["result"],
      "Reloads of rules, by result.",
      state.rulesInForce ? byName("result", withZeros(["applied", "rejected"], state.reloads)) : [],
    ),
  ];
}

/** Once a challenge was issued, the results that have not occurred are 0. */
function challengeSamples(rows: ReadonlyMap<string, ReadonlyMap<string, number>>): MetricSample[] {
  if (rows.size === 0) return [];
  const results = withZeros(["solved", "failed", "provider-down"], rows.get("") ?? new Map());
  return [...new Map(rows).set("", results)].flatMap(([rule, counts]) => byName("result", counts, { rule }));
}

/**
 * Rare events are counted from 0. A counter that first appears with the value 1 has not increased for Prometheus, so an alert
 * would miss the first event.
 */
function withZeros(names: readonly string[], counts: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  return new Map([...names.map((name) => [name, 0] as const), ...counts]);
}

/** A series exists once it has counted something. */
function byOutcome(labels: Readonly<Record<string, string>>, counts: Float64Array): MetricSample[] {
  return OUTCOMES.flatMap((outcome, i) => nonZero({ ...labels, outcome }, counts[i] as number));
}

function nonZero(labels: Readonly<Record<string, string>>, value: number): MetricSample[] {
  return value > 0 ? [{ labels, value }] : [];
}

function byName(
  label: string,
  counts: ReadonlyMap<string, number>,
  others: Readonly<Record<string, string>> = {},
): MetricSample[] {
  return [...counts].map(([name, value]) => ({ labels: { ...others, [label]: name }, value }));
}
