/** The last 15 minutes of an observer's counters, sampled once per second. Decisions don't pay for it. */
import { monotonicMs } from "../../base/clock.ts";
import type { ObserverState } from "../observer.ts";
import { COLUMN } from "../outcomes.ts";
import type { StoreStats } from "../store-stats.ts";
import { RecentCounts } from "./recent-counts.ts";
import { TimeSeries } from "./time-series.ts";

/** The chart: 15 minutes in bins of 5 s. */
const CHART_BINS = 180;
const CHART_BIN_MS = 5000;
/** The sparkline of a rule: 15 minutes as well. */
const RULE_BINS = 60;
const RULE_BIN_MS = 15_000;
/** Seconds that a rate is the mean of. */
const RATE_SECONDS = 10;
/** How long medians and latencies look back, at least; at most twice as long. */
const GENERATION_MS = 300_000;
/** Rules with a history of their own. All others are in the totals only. */
const MAX_RULES = 512;

/** The series of the chart, in order. */
export const SERIES = ["allowed", "denied", "wouldDeny", "degraded"] as const;

/** The counts of a rule or a policy, summed up for people. */
export interface Sums {
  /** Requests that went ahead, also those with a replayed response. */
  readonly allowed: number;
  /** Requests that were rejected: denied, blocked, challenged, or not checked. */
  readonly denied: number;
  /** Requests that went ahead although a limit was exceeded. */
  readonly wouldDeny: number;
  readonly degraded: number;
}

/** The counters of a rule, or of a policy if nothing counts requests. */
export interface Counters {
  readonly outcomes: Float64Array;
  readonly degraded: number;
  readonly remaining: Float64Array | undefined;
}

/** The recent past of one rule. */
export interface RuleHistory {
  /** Requests per second, over the last 10 s. */
  readonly perSecond: number;
  readonly requests: readonly number[];
  readonly denied: readonly number[];
  /** Histogram of what was left of the limit, over the last 5 to 10 minutes. */
  readonly remaining: readonly number[];
}

interface RuleSeries {
  /** The first of two series: requests, and denials. */
  readonly sparkline: number;
  readonly seconds: number;
  remaining: RecentCounts | undefined;
  last: Sums;
}

/** Samples the counters of an observer. */
export class History {
  private readonly state: ObserverState;
  private readonly chart: TimeSeries;
  private readonly sparklines: TimeSeries;
  private readonly seconds: TimeSeries;
  private readonly rules: Map<string, RuleSeries> = new Map();
  private readonly durations: Map<StoreStats, RecentCounts> = new Map();
  private last: Sums;
  private unit: "requests" | "decisions";
  private rotatedAt: number;

  constructor(state: ObserverState) {
    const now = monotonicMs();
    this.state = state;
    this.chart = new TimeSeries(CHART_BINS, CHART_BIN_MS, now);
    this.sparklines = new TimeSeries(RULE_BINS, RULE_BIN_MS, now);
    this.seconds = new TimeSeries(RATE_SECONDS, 1000, now);
    this.chart.create(SERIES.length);
    this.rotatedAt = now;
    this.unit = unitOf(state);
    this.last = sumsOf(...countersOf(state).values());
    for (const [name, counters] of countersOf(state)) this.track(name, sumsOf(counters), counters.remaining);
  }

  /** Adds what was counted since the last call. */
  sample(): void {
    const now = monotonicMs();
    const unit = unitOf(this.state);
    // The first request has been counted: decisions of limiters are no longer shown.
    if (unit !== this.unit) this.restart(unit);
    for (const series of [this.chart, this.sparklines, this.seconds]) series.advance(now);
    const counters = countersOf(this.state);
    const sums = sumsOf(...counters.values());
    for (const [series, name] of SERIES.entries()) this.chart.add(series, sums[name] - this.last[name]);
    this.last = sums;
    for (const [name, one] of counters) this.sampleRule(name, one);
    for (const stats of this.state.stores.values()) this.recentDurations(stats);
    if (now - this.rotatedAt >= GENERATION_MS) this.rotate(now, counters);
  }

  /** The chart, as sums per bin, and when its first bin started. */
  bins(): { startsAt: number; binMs: number } & Record<(typeof SERIES)[number], number[]> {
    const startsAt = this.state.now() - (monotonicMs() % CHART_BIN_MS) - (CHART_BINS - 1) * CHART_BIN_MS;
    const [allowed, denied, wouldDeny, degraded] = SERIES.map((_, series) => this.chart.read(series)) as [
      number[],
      number[],
      number[],
      number[],
    ];
    return { startsAt: Math.round(startsAt), binMs: CHART_BIN_MS, allowed, denied, wouldDeny, degraded };
  }

  /** The recent past of a rule; `undefined` if it has none. */
  rule(name: string, { remaining }: Counters): RuleHistory | undefined {
    const rule = this.rules.get(name);
    if (!rule) return undefined;
    return {
      perSecond: this.seconds.total(rule.seconds) / RATE_SECONDS,
      requests: this.sparklines.read(rule.sparkline),
      denied: this.sparklines.read(rule.sparkline + 1),
      remaining: remaining ? (rule.remaining?.read(remaining) ?? []) : [],
    };
  }

  /** Durations of a store in the last 5 to 10 minutes, by bucket. */
  recentDurations(stats: StoreStats): number[] {
    const { buckets } = stats.durations;
    let recent = this.durations.get(stats);
    if (!recent) this.durations.set(stats, (recent = new RecentCounts(new Float64Array(buckets.length))));
    return recent.read(buckets);
  }

  private sampleRule(name: string, counters: Counters): void {
    const rule = this.rules.get(name) ?? this.track(name, NOTHING, counters.remaining && []);
    if (!rule) return;
    const sums = sumsOf(counters);
    const requests = requestsOf(sums) - requestsOf(rule.last);
    this.sparklines.add(rule.sparkline, requests);
    this.sparklines.add(rule.sparkline + 1, sums.denied - rule.last.denied);
    this.seconds.add(rule.seconds, requests);
    rule.last = sums;
  }

  private track(name: string, last: Sums, remaining: ArrayLike<number> | undefined): RuleSeries | undefined {
    if (this.rules.size >= MAX_RULES) return undefined;
    const rule: RuleSeries = {
      sparkline: this.sparklines.create(2),
      seconds: this.seconds.create(1),
      remaining: remaining && new RecentCounts(remaining),
      last,
    };
    this.rules.set(name, rule);
    return rule;
  }

  private rotate(now: number, counters: ReadonlyMap<string, Counters>): void {
    this.rotatedAt = now;
    for (const [name, { remaining }] of counters) if (remaining) this.rules.get(name)?.remaining?.rotate(remaining);
    for (const [stats, recent] of this.durations) recent.rotate(stats.durations.buckets);
  }

  private restart(unit: "requests" | "decisions"): void {
    this.unit = unit;
    this.rules.clear();
    for (const series of [this.chart, this.sparklines, this.seconds]) series.clear();
    this.chart.create(SERIES.length);
    this.last = NOTHING;
  }
}

const NOTHING: Sums = { allowed: 0, denied: 0, wouldDeny: 0, degraded: 0 };

/** What is counted: requests, or decisions in a process that only calls limiters. */
export function unitOf({ requestsByRule, policies }: ObserverState): "requests" | "decisions" {
  if (requestsByRule.rows.size > 0) return "requests";
  for (const { decisions } of policies.rows.values()) if (decisions.some((count) => count > 0)) return "decisions";
  return "requests";
}

/** The counters by rule, or by policy. */
export function countersOf(state: ObserverState): ReadonlyMap<string, Counters> {
  const isByRule = unitOf(state) === "requests";
  const rows = isByRule
    ? [...state.requestsByRule.rows].map(([name, { requests, degraded, remaining }]) => {
        return [name, { outcomes: requests, degraded, remaining }] as const;
      })
    : [...state.policies.rows].map(([name, { decisions, degraded }]) => {
        return [name, { outcomes: decisions, degraded, remaining: undefined }] as const;
      });
  return new Map<string, Counters>(rows);
}

/** Adds up counters. */
export function sumsOf(...counters: readonly Counters[]): Sums {
  const count = (...outcomes: (keyof typeof COLUMN)[]): number =>
    counters.reduce((sum, one) => outcomes.reduce((sum, name) => sum + (one.outcomes[COLUMN[name]] ?? 0), sum), 0);
  return {
    allowed: count("allowed", "replayed"),
    denied: count("denied", "blocked", "challenged", "unavailable"),
    wouldDeny: count("would-deny"),
    degraded: counters.reduce((sum, { degraded }) => sum + degraded, 0),
  };
}

/** All requests of a rule. */
export function requestsOf({ allowed, denied, wouldDeny }: Sums): number {
  return allowed + denied + wouldDeny;
}
