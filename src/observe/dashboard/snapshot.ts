/** Everything that the dashboard shows, as JSON. It contains tags and no keys. */
import { VERSION } from "../../base/version.ts";
import type { RuleSet } from "../../rules/rule-set-types.ts";
import type { TransitionEvent } from "../events.ts";
import { DURATION_BOUNDS } from "../histogram.ts";
import type { ObserverState } from "../observer.ts";
import { medianRemaining } from "../rule-counts.ts";
import type { TopKey } from "../top-keys.ts";
import { type Counters, countersOf, type History, requestsOf, type Sums, sumsOf, unitOf } from "./history.ts";
import { quantile } from "./recent-counts.ts";

/** Rows of the table of rules. A message per second should stay small. */
const MAX_ROWS = 50;
const MAX_TOP_KEYS = 20;
/** A pattern list is cut after this many. */
const MAX_PATTERNS = 4;

/** The state of one process. Times are in epoch milliseconds. */
export interface Snapshot {
  /** Version of this format. */
  readonly format: 1;
  readonly sluice: string;
  readonly now: number;
  readonly startedAt: number;
  /** What the numbers count: requests of middleware, or decisions if there are no requests. */
  readonly unit: "requests" | "decisions";
  readonly health: Health;
  /** Sums since the process started. */
  readonly totals: Sums;
  /** The last 15 minutes, as sums per bin, oldest first. */
  readonly history: ReturnType<History["bins"]>;
  /** The rules by denials in the last 15 minutes. */
  readonly rules: readonly RuleRow[];
  /** Rules that are not in the list. */
  readonly moreRules: number;
  readonly topKeys: readonly TopKey[];
  readonly shadow: readonly ShadowRow[];
  /** Newest first. */
  readonly transitions: readonly TransitionEvent[];
}

interface Health {
  readonly stores: readonly StoreRow[];
  readonly memory: readonly { readonly name: string; readonly keys: number; readonly evictions: number }[];
  /** Decisions that were made without the store, since the process started. */
  readonly degraded: number;
  readonly rules: { readonly version: string; readonly since: number } | null;
}

interface StoreRow {
  readonly name: string;
  readonly isUp: boolean;
  readonly since: number;
  readonly errors: number;
  /** Latency in the last 5 to 10 minutes; `null` without calls. Longer ones than 1 s count as 1 s. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
}

interface RuleRow {
  readonly name: string;
  readonly patterns: readonly string[];
  readonly mode: "enforce" | "shadow";
  readonly perSecond: number;
  /** In the last 15 minutes. */
  readonly requests: number;
  readonly denied: number;
  /** What is left of the limit after a request, as a share: the median. */
  readonly remaining: number | null;
  readonly sparkline: { readonly requests: readonly number[]; readonly denied: readonly number[] };
}

interface ShadowRow {
  readonly rule: string;
  readonly requests: number;
  readonly wouldDeny: number;
  /** Keys that exceeded the limit in the last 5 to 10 minutes, at least. */
  readonly clients: number;
}

/** Reads the state of an observer. The history must have been sampled just before. */
export function snapshotOf(state: ObserverState, history: History, rules: RuleSet | undefined): Snapshot {
  const counters = countersOf(state);
  const facts = ruleFacts(rules);
  const rows = ruleRows(counters, history, facts);
  const now = state.now();
  return {
    format: 1,
    sluice: VERSION,
    now,
    startedAt: state.startedAt,
    unit: unitOf(state),
    health: healthOf(state, history),
    totals: sumsOf(...counters.values()),
    history: history.bins(),
    rules: rows.slice(0, MAX_ROWS),
    moreRules: Math.max(0, rows.length - MAX_ROWS),
    topKeys: state.keys.top(MAX_TOP_KEYS, now),
    shadow: shadowRows(counters, facts, countsOf(state.shadowKeys.rulesOfKeys(now))),
    transitions: [...state.transitions].reverse(),
  };
}

function healthOf(state: ObserverState, history: History): Health {
  const milliseconds = (seconds: number | undefined): number | null =>
    seconds === undefined ? null : Math.round(seconds * 1e5) / 100;
  const stores = [...state.stores.values()].map((stats) => {
    const recent = history.recentDurations(stats);
    return {
      name: stats.name,
      isUp: stats.isUp,
      since: stats.changedAt ?? state.startedAt,
      errors: [...stats.errors.values()].reduce((sum, count) => sum + count, 0),
      p50Ms: milliseconds(quantile(recent, DURATION_BOUNDS, 0.5)),
      p99Ms: milliseconds(quantile(recent, DURATION_BOUNDS, 0.99)),
    };
  });
  return {
    stores,
    memory: [...state.memory.entries()].map(([{ size, evictions }, name]) => ({ name, keys: size, evictions })),
    degraded: [...state.policies.rows.values()].reduce((sum, { degraded }) => sum + degraded, 0),
    rules: state.rulesInForce ?? null,
  };
}

/** What the rule file says about a rule. */
interface RuleFacts {
  readonly patterns: readonly string[];
  readonly mode: "enforce" | "shadow";
}

function ruleFacts(rules: RuleSet | undefined): ReadonlyMap<string, RuleFacts> {
  const facts = new Map<string, RuleFacts>();
  if (!rules) return facts;
  const { data } = rules;
  const modeOf = (mode: RuleFacts["mode"] | undefined): RuleFacts["mode"] => mode ?? data.defaults?.mode ?? "enforce";
  for (const { name, match, mode } of data.rules) {
    const patterns = [match].flat();
    const more = patterns.length - MAX_PATTERNS;
    const shown = patterns.slice(0, MAX_PATTERNS);
    facts.set(name, { patterns: more > 0 ? [...shown, `and ${more} more`] : shown, mode: modeOf(mode) });
  }
  if (data.fallback !== "unlimited") {
    facts.set("fallback", { patterns: ["all other requests"], mode: modeOf(data.fallback.mode) });
  }
  return facts;
}

function ruleRows(
  counters: ReadonlyMap<string, Counters>,
  history: History,
  facts: ReadonlyMap<string, RuleFacts>,
): RuleRow[] {
  // Rules without requests are listed too: a rule that matches nothing is worth knowing.
  const names = new Set([...counters.keys(), ...facts.keys()]);
  return [...names].map((name) => ruleRow(name, counters.get(name), history, facts.get(name))).sort(byDenials);
}

function byDenials(a: RuleRow, b: RuleRow): number {
  return b.denied - a.denied || b.requests - a.requests;
}

function ruleRow(
  name: string,
  counters: Counters | undefined,
  history: History,
  facts: RuleFacts | undefined,
): RuleRow {
  const recent = counters && history.rule(name, counters);
  const sums = counters && sumsOf(counters);
  const { requests = [], denied = [], perSecond = 0, remaining = [] } = recent ?? {};
  const median = medianRemaining(remaining);
  return {
    name,
    patterns: facts?.patterns ?? [],
    mode: facts?.mode ?? (sums && sums.wouldDeny > 0 && sums.denied === 0 ? "shadow" : "enforce"),
    perSecond: Math.round(perSecond * 10) / 10,
    requests: total(requests),
    denied: total(denied),
    remaining: median === undefined ? null : Math.round(median * 100) / 100,
    sparkline: { requests, denied },
  };
}

function shadowRows(
  counters: ReadonlyMap<string, Counters>,
  facts: ReadonlyMap<string, RuleFacts>,
  keys: ReadonlyMap<string, number>,
): ShadowRow[] {
  const names = new Set([...facts].filter(([, { mode }]) => mode === "shadow").map(([name]) => name));
  for (const [name, one] of counters) if (sumsOf(one).wouldDeny > 0) names.add(name);
  return [...names]
    .map((rule) => {
      const sums = sumsOf(...[counters.get(rule)].filter((one) => one !== undefined));
      return { rule, requests: requestsOf(sums), wouldDeny: sums.wouldDeny, clients: keys.get(rule) ?? 0 };
    })
    .sort((a, b) => b.wouldDeny - a.wouldDeny)
    .slice(0, MAX_ROWS);
}

function countsOf(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
