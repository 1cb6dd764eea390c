/** Tests the circuit breaker of a store and of its shards. */
import { describe, expect, it } from "vitest";
import { optionError, type SluiceError } from "../base/errors.ts";
import { ALL_SHARDS, Breaker } from "./breaker.ts";

/** A store failure with the error of the client as its cause. */
function failure(cause: unknown = new Error("down")): SluiceError {
  return Object.assign(optionError("store-unavailable", "store", "an answer"), { cause });
}

/** A breaker and the events that it emits. */
function createBreaker(): { breaker: Breaker; events: string[] } {
  const breaker = new Breaker();
  const events: string[] = [];
  breaker.watchers.add({ down: () => events.push("down"), up: () => events.push("up"), degraded: () => {} });
  return { breaker, events };
}

describe("a store that fails now and then", () => {
  it("reports every call that failed, also those of one broken connection", () => {
    const breaker = new Breaker();
    const counts: number[] = [];
    breaker.watchers.add({ down: () => counts.push(-1), up: () => {}, degraded: (_, count) => counts.push(count) });
    const broken = new Error("the connection is closed");
    for (let i = 0; i < 200; i++) breaker.failed(ALL_SHARDS, 1, failure(broken), false);
    expect(breaker.isOpen(ALL_SHARDS), "one failure for the circuit").toBe(false);
    breaker.succeeded(ALL_SHARDS, 2);
    for (let i = 0; i < 30; i++) breaker.failed(ALL_SHARDS, 100, failure(broken), false);
    breaker.succeeded(ALL_SHARDS, 101);
    breaker.failed(ALL_SHARDS, 61_000, failure(), false);
    breaker.succeeded(ALL_SHARDS, 61_001);
    expect(counts).toEqual([200, 31]);
  });
});

describe("a failing shard", () => {
  it("opens its own circuit and no other", () => {
    const { breaker, events } = createBreaker();
    for (let i = 0; i < 5; i++) breaker.failed(3, i * 10, failure(), false);
    expect(breaker.rejection(3, 50)).toBeDefined();
    expect(breaker.rejection(4, 50)).toBeUndefined();
    expect(breaker.rejection(0, 50)).toBeUndefined();
    expect(events).toEqual(["down"]);
    expect(breaker.rejection(3, 2000), "a probe is allowed").toBeUndefined();
    expect(breaker.rejection(3, 2001)).toBeDefined();
    breaker.succeeded(3, 2002);
    expect(breaker.rejection(3, 2003)).toBeUndefined();
    expect(events).toEqual(["down", "up"]);
  });

  it("never opens the circuit of the store by itself, and uses no probe of another shard", () => {
    const { breaker } = createBreaker();
    for (let now = 0; now < 100_000; now += 10) {
      if (!breaker.rejection("bad", now)) breaker.failed("bad", now, failure(), breaker.isOpen("bad"));
    }
    expect(breaker.rejection("good", 100_000)).toBeUndefined();
    for (let i = 0; i < 30; i++) breaker.failed(`key ${i}`, 100_001, failure(), false);
    // The circuit of the store is open. A call rejected for its own shard is not a probe for the others.
    expect(breaker.rejection("good", 100_002)).toBeDefined();
    breaker.failed("bad", 101_000, failure(), true);
    expect(breaker.rejection("bad", 101_500)).toBeDefined();
    expect(breaker.rejection("good", 102_100)).toBeUndefined();
  });

  it("is dropped after a minute without calls, so the next failure is reported", () => {
    const { breaker, events } = createBreaker();
    for (let i = 0; i < 5; i++) breaker.failed("a", i * 10, failure(), false);
    breaker.succeeded("b", 70_000);
    expect(events).toEqual(["down", "up"]);
    for (let i = 0; i < 5; i++) breaker.failed("b", 70_000 + i * 10, failure(), false);
    expect(events).toEqual(["down", "up", "down"]);
  });
});

describe("many failing shards", () => {
  it("open the circuit of the store if no shard replies", () => {
    const { breaker, events } = createBreaker();
    let asked = 0;
    for (let i = 0; i < 1000; i++) {
      const part = `key ${i}`;
      if (breaker.rejection(part, i)) continue;
      asked++;
      breaker.failed(part, i, failure(), false);
    }
    expect(asked).toBeLessThan(30);
    expect(events).toEqual(["down"]);
    expect(breaker.retryAfterMs("any", 999)).toBeGreaterThan(0);
    // One probe is allowed on any shard. If it succeeds, all calls are.
    expect(breaker.rejection("key 0", 1100)).toBeUndefined();
    expect(breaker.rejection("key 1", 1100)).toBeDefined();
    breaker.succeeded("key 0", 1101);
    expect(breaker.rejection("key 1", 1102)).toBeUndefined();
    expect(events).toEqual(["down", "up"]);
  });

  it("do not open the circuit of the store while others reply", () => {
    const { breaker } = createBreaker();
    for (let i = 0; i < 1000; i++) {
      breaker.failed(`key ${i}`, i, failure(), false);
      breaker.succeeded("healthy", i);
    }
    expect(breaker.rejection("another", 1001)).toBeUndefined();
  });

  it("are tracked up to a maximum", () => {
    const { breaker } = createBreaker();
    for (let i = 0; i < 5000; i++) {
      breaker.failed(`key ${i}`, 1, failure(), false);
      breaker.succeeded("healthy", 1);
    }
    expect((breaker as unknown as { failing: Map<unknown, unknown> }).failing.size).toBeLessThanOrEqual(1001);
  });
});

describe("one failure", () => {
  it("is counted once for many calls that fail together with the same error", () => {
    const { breaker, events } = createBreaker();
    const error = new Error("a call for fifty");
    for (let i = 0; i < 50; i++) breaker.failed(ALL_SHARDS, 1, failure(error), false);
    expect(events).toEqual([]);
  });

  it("is counted again when a client later fails with the same error object", () => {
    const { breaker, events } = createBreaker();
    const error = new Error("never connected");
    for (let i = 0; i < 5; i++) breaker.failed(ALL_SHARDS, i * 20, failure(error), false);
    expect(events).toEqual(["down"]);
  });
});
