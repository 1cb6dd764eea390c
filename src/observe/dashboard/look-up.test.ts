/** Tests of looking up a key in memory stores. */
import { block, createLimiter, hold, memoryStore, penalty, type Store } from "sluice";
import { rateLimit } from "sluice/fetch";
import { createObserver, type Observer } from "sluice/observe";
import { defineRules } from "sluice/rules";
import { afterEach, describe, expect, it, vi } from "vitest";
import { OBSERVER } from "../../core/observer.ts";
import type { ObserverState } from "../observer.ts";
import { lookUp } from "./look-up.ts";

afterEach(() => {
  vi.useRealTimers();
});

const stateOf = (observer: Observer) => observer[OBSERVER] as ObserverState;

describe("lookUp", () => {
  it("finds the budgets of addresses, users, API keys and facts", async () => {
    const observer = createObserver();
    const rules = defineRules(
      {
        rules: [{ name: "orders", match: "/orders", limits: { ip: "5/h", tenant: "9/h", user: "7/h" } }],
        fallback: "unlimited",
      },
      { observer },
    );
    const state = stateOf(observer);
    const facts = { tenant: "acme", user: "ada" };
    await rules.consume({ method: "GET", path: "/orders", ip: "2001:db8:0:1200::77", facts });
    const found = async (text: string) => {
      const { entries, complete } = await lookUp(state, text, rules);
      expect(complete).toBe(true);
      return entries.filter((entry) => entry.found).map(({ policy, as, remaining }) => [policy, as, remaining]);
    };
    expect(await found("2001:DB8:0:12ff::1")).toEqual([["orders.ip", "ip", 4]]);
    expect(await found("ip:2001:db8:0:12ff::1")).toEqual([["orders.ip", "ip", 4]]);
    expect(await found("ip:2001:db8:0:1200::/56")).toEqual([["orders.ip", "typed", 4]]);
    expect(await found("acme")).toEqual([["orders.tenant", "tenant", 8]]);
    expect(await found("tenant:acme")).toEqual([["orders.tenant", "typed", 8]]);
    expect(await found("ada")).toEqual([["orders.user", "user", 6]]);
    expect(await found("eve")).toEqual([]);
  });

  it("finds a key in every store that has the policy", async () => {
    const observer = createObserver();
    const [first, second] = [0, 1].map(() => createLimiter({ policy: "5/h", observer }));
    await first?.consume("a", 2);
    await second?.consume("b", 3);
    const remaining = async (key: string) =>
      (await lookUp(stateOf(observer), key, undefined)).entries.map((entry) => entry.remaining);
    expect(await remaining("a")).toEqual([3]);
    expect(await remaining("b")).toEqual([2]);
    expect(await remaining("c")).toEqual([5]);
  });

  it("returns blocks, holds, times to live, and full budgets", async () => {
    const observer = createObserver();
    const store = memoryStore();
    const blocks = createLimiter({ policy: penalty({ strikes: 3, blockMs: "10m", name: "abuse" }), store, observer });
    const tokens = createLimiter({ policy: { capacity: 100, tokensPerSecond: 1, name: "tokens" }, store, observer });
    createLimiter({ policy: { capacity: 7, tokensPerSecond: 1, name: "unused" }, store, observer });
    await block(blocks, "a", "1h");
    await hold(tokens, "a", 30);
    const { entries, failed, tags } = await lookUp(stateOf(observer), "a", undefined);
    expect(failed).toEqual([]);
    expect(entries).toMatchObject([
      { policy: "abuse", found: true, strikes: 0 },
      { policy: "tokens", found: true, remaining: 70, limit: 100, held: 30 },
      { policy: "unused", found: false, remaining: 7, limit: 7, ttlMs: null },
    ]);
    expect(entries[0]?.blockedMs).toBeGreaterThan(3_590_000);
    expect(entries[1]?.ttlMs).toBeGreaterThan(0);
    expect(tags.map(({ as }) => as)).toEqual(["typed", "user", "API key"]);
  });

  it("returns the tag that log lines show", async () => {
    const tags: string[] = [];
    const observer = createObserver();
    observer.on((event) => void (event.type === "decision" && tags.push(event.tag())));
    const handler = rateLimit({ policy: "1/h", observer })(() => new Response("ok"));
    const peer = { remoteAddr: { hostname: "203.0.113.7" } };
    await (handler as (request: Request, info: object) => Promise<Response>)(new Request("http://localhost/"), peer);
    const found = await lookUp(stateOf(observer), "203.0.113.7", undefined);
    expect(found.tags).toContainEqual({ as: "ip", tag: tags[0] });
  });

  it("names policies whose store fails, and stops after a second", async () => {
    vi.useFakeTimers();
    const observer = createObserver();
    const state = stateOf(observer);
    const one = createLimiter({ policy: { capacity: 1, tokensPerSecond: 1, name: "works" }, observer });
    await one.consume("a");
    const [[, { policy }]] = [...state.known] as [[string, { policy: never; store: Store }]];
    const store = (inspect: Store["inspect"]): Store => ({ ...memoryStore(), consistency: "exact", inspect }) as Store;
    const named = (name: string) => ({ ...(policy as object), id: name, name }) as never;
    state.known.set("broken", { policy: named("broken"), store: store(() => Promise.reject(new Error("no"))) });
    expect(await lookUp(state, "a", undefined)).toMatchObject({ failed: ["broken"], complete: true });
    state.known.set("hanging", { policy: named("hanging"), store: store(() => new Promise(() => {})) });
    const late = lookUp(state, "a", undefined);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await late).toMatchObject({
      failed: ["broken"],
      complete: false,
      entries: [{ policy: "works", remaining: 0 }],
    });
  });
});
