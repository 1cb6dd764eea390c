/** Tests of the sampled counters, with fake timers. */
import { createLimiter } from "sluice";
import { rateLimit } from "sluice/fetch";
import { createObserver } from "sluice/observe";
import { defineRules } from "sluice/rules";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { OBSERVER } from "../../core/observer.ts";
import type { ObserverState } from "../observer.ts";
import { StoreStats } from "../store-stats.ts";
import { History } from "./history.ts";
import { quantile, RecentCounts } from "./recent-counts.ts";
import { snapshotOf } from "./snapshot.ts";
import { TimeSeries } from "./time-series.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

function setUp() {
  const observer = createObserver();
  const state = observer[OBSERVER] as ObserverState;
  const rules = defineRules(
    {
      rules: [
        { name: "login", match: "POST /login", limits: { ip: "2/d log" } },
        { name: "search", match: ["GET /a", "GET /b", "GET /c", "GET /d", "GET /e"], limits: { ip: "1/d log" } },
      ],
      defaults: { mode: "shadow" },
      fallback: { limits: { ip: "9/d log" }, mode: "enforce" },
    },
    { observer },
  );
  const handler = rateLimit({ rules, observer })(() => new Response("ok"));
  const send = async (count: number, method: string, path: string, ip = "203.0.113.7") => {
    for (let i = 0; i < count; i++) {
      const peer = { remoteAddr: { hostname: ip } };
      await (handler as (request: Request, info: object) => Promise<Response>)(
        new Request(`http://localhost${path}`, { method }),
        peer,
      );
    }
  };
  return { observer, state, rules, send };
}

const sum = (counts: readonly number[]) => counts.reduce((a, b) => a + b, 0);

describe("History", () => {
  it("has the sums of the last 15 minutes in bins of 5 s, and forgets older ones", async () => {
    const { state, send } = setUp();
    const history = new History(state);
    await send(3, "GET", "/other");
    history.sample();
    vi.advanceTimersByTime(60_000);
    await send(12, "GET", "/other");
    history.sample();
    const { allowed, denied, binMs, startsAt } = history.bins();
    expect([allowed.length, binMs]).toEqual([180, 5000]);
    expect([allowed.at(-13), allowed.at(-1), denied.at(-1)]).toEqual([3, 6, 6]);
    expect([sum(allowed), sum(denied)]).toEqual([9, 6]);
    const now = Date.now();
    expect(startsAt + 179 * 5000).toBeLessThanOrEqual(now);
    expect(startsAt + 180 * 5000).toBeGreaterThan(now);
    vi.advanceTimersByTime(840_000);
    history.sample();
    expect([sum(history.bins().allowed), sum(history.bins().denied)]).toEqual([6, 6]);
    vi.advanceTimersByTime(3_600_000);
    history.sample();
    expect([sum(history.bins().allowed), sum(history.bins().denied)]).toEqual([0, 0]);
  });

  it("does not count what happened before it was created", async () => {
    const { state, send } = setUp();
    await send(12, "GET", "/other");
    const history = new History(state);
    await send(1, "GET", "/other");
    history.sample();
    expect([sum(history.bins().allowed), sum(history.bins().denied)]).toEqual([0, 1]);
    expect(snapshotOf(state, history, undefined).totals).toMatchObject({ allowed: 9, denied: 4 });
  });

  it("has rates over 10 s and sparklines of 15 minutes for each rule", async () => {
    const { state, send, rules } = setUp();
    const history = new History(state);
    const fallback = () => snapshotOf(state, history, rules).rules.find(({ name }) => name === "fallback");
    await send(20, "GET", "/other");
    history.sample();
    expect(fallback()).toMatchObject({ perSecond: 2, requests: 20, denied: 11, mode: "enforce" });
    expect(fallback()?.remaining).toBeLessThan(0.1);
    vi.advanceTimersByTime(11_000);
    history.sample();
    expect(fallback()).toMatchObject({ perSecond: 0, requests: 20 });
    expect(fallback()?.sparkline.denied).toHaveLength(60);
    vi.advanceTimersByTime(900_000);
    history.sample();
    expect(fallback()).toMatchObject({ requests: 0, denied: 0 });
  });

  it("shows requests instead of decisions from the first request on", async () => {
    const { observer, state, send } = setUp();
    const limiter = createLimiter({ policy: "1/h", observer });
    const history = new History(state);
    limiter.consumeSync("a");
    history.sample();
    expect(snapshotOf(state, history, undefined)).toMatchObject({ unit: "decisions", totals: { allowed: 1 } });
    expect(sum(history.bins().allowed)).toBe(1);
    await send(2, "GET", "/other");
    history.sample();
    expect(snapshotOf(state, history, undefined)).toMatchObject({ unit: "requests", totals: { allowed: 2 } });
    expect(sum(history.bins().allowed)).toBe(2);
  });

  it("has the latency of the last minutes, and when a store went down", () => {
    const { state } = setUp();
    const history = new History(state);
    const stats = new StoreStats("redis", () => {});
    state.stores.set({}, stats);
    for (let i = 0; i < 100; i++) stats.replied(i < 98 ? 0.4 : 40);
    const health = () => snapshotOf(state, history, undefined).health.stores[0];
    history.sample();
    expect(health()).toMatchObject({ name: "redis", isUp: true, since: state.startedAt });
    expect([health()?.p50Ms, health()?.p99Ms]).toEqual([0.38, 37.5]);
    for (let i = 0; i < 2; i++) {
      vi.advanceTimersByTime(300_000);
      history.sample();
    }
    expect([health()?.p50Ms, health()?.p99Ms]).toEqual([null, null]);
    stats.isUp = false;
    stats.changedAt = 5;
    expect(health()).toMatchObject({ isUp: false, since: 5 });
  });
});

describe("snapshotOf", () => {
  it("describes shadow rules, with the number of clients", async () => {
    const { state, send, rules } = setUp();
    const history = new History(state);
    for (const ip of ["203.0.113.1", "203.0.113.2", "203.0.113.3"]) await send(3, "POST", "/login", ip);
    await send(1, "POST", "/login", "203.0.113.1");
    history.sample();
    const { shadow, topKeys, rules: rows } = snapshotOf(state, history, rules);
    expect(shadow).toEqual([
      { rule: "login", requests: 10, wouldDeny: 4, clients: 3 },
      { rule: "search", requests: 0, wouldDeny: 0, clients: 0 },
    ]);
    // Nothing was denied.
    expect(topKeys).toEqual([]);
    expect(rows.map(({ name, mode }) => [name, mode])).toEqual([
      ["login", "shadow"],
      ["search", "shadow"],
      ["fallback", "enforce"],
    ]);
    expect(rows[1]?.patterns).toEqual(["GET /a", "GET /b", "GET /c", "GET /d", "and 1 more"]);
  });

  it("has the last 100 changes of state, newest first, and no decisions", async () => {
    const { state, send } = setUp();
    const history = new History(state);
    await send(30, "GET", "/other");
    for (let i = 0; i < 130; i++) state.transition({ type: "warning", message: `number ${i}` });
    const { transitions } = snapshotOf(state, history, undefined);
    expect([transitions.length, transitions[0]?.message, transitions.at(-1)?.message]).toEqual([
      100,
      "number 129",
      "number 30",
    ]);
    expect(state.isListening).toBe(false);
  });

  it("contains no key", async () => {
    const { state, send, rules } = setUp();
    const history = new History(state);
    await send(30, "GET", "/other", "198.51.100.77");
    history.sample();
    expect(JSON.stringify(snapshotOf(state, history, rules))).not.toContain("198.51.100.77");
  });
});

describe("TimeSeries", () => {
  it("keeps its last interval if time does not move", () => {
    const series = new TimeSeries(3, 1000, 5000);
    expect([series.create(2), series.create(1)]).toEqual([0, 2]);
    series.add(1, 4);
    series.advance(4000);
    series.add(1, 1);
    expect([series.read(0), series.read(1), series.read(2)]).toEqual([
      [0, 0, 0],
      [0, 0, 5],
      [0, 0, 0],
    ]);
    series.advance(6999);
    expect(series.read(1)).toEqual([0, 5, 0]);
    series.advance(100_000);
    expect([series.read(1), series.total(1)]).toEqual([[0, 0, 0], 0]);
    series.clear();
    expect(series.create(100)).toBe(0);
    series.add(99, 1);
    expect([series.total(99), series.total(98)]).toEqual([1, 0]);
  });
});

describe("quantile", () => {
  it("interpolates, and counts what is above as the last bound", () => {
    expect(quantile([0, 0, 0], [1, 2], 0.5)).toBeUndefined();
    expect(quantile([10, 10, 0], [1, 2], 0.5)).toBe(1);
    expect(quantile([0, 10, 0], [1, 2], 0.5)).toBe(1.5);
    expect(quantile([0, 1, 99], [1, 2], 0.99)).toBe(2);
  });

  it("is of one to two generations", () => {
    const recent = new RecentCounts([5]);
    expect(recent.read([7])).toEqual([2]);
    recent.rotate([7]);
    expect(recent.read([8])).toEqual([3]);
    recent.rotate([8]);
    expect(recent.read([8])).toEqual([1]);
  });
});
