import { describe, expect, it } from "vitest";
import { optionError, type SluiceError } from "../core/errors.ts";
import { ALL_SHARDS, Breaker } from "./breaker.ts";

/** What a client threw, as the guard tells it. */
function fault(cause: unknown = new Error("down")): SluiceError {
  return Object.assign(optionError("store-unavailable", "store", "an answer"), { cause });
}

/** A breaker, and what it told. */
function watched(): { breaker: Breaker; told: string[] } {
  const breaker = new Breaker();
  const told: string[] = [];
  breaker.watchers.add({ down: () => told.push("down"), up: () => told.push("up") });
  return { breaker, told };
}

describe("a part that fails", () => {
  it("is left alone, and the others are not", () => {
    const { breaker, told } = watched();
    for (let i = 0; i < 5; i++) breaker.failed(3, i * 10, fault(), false);
    expect(breaker.rejection(3, 50)).toBeDefined();
    expect(breaker.rejection(4, 50)).toBeUndefined();
    expect(breaker.rejection(0, 50)).toBeUndefined();
    expect(told).toEqual(["down"]);
    expect(breaker.rejection(3, 2000), "one may try").toBeUndefined();
    expect(breaker.rejection(3, 2001)).toBeDefined();
    breaker.succeeded(3, 2002);
    expect(breaker.rejection(3, 2003)).toBeUndefined();
    expect(told).toEqual(["down", "up"]);
  });

  it("is not the whole, however long it fails and nobody else is asked, and takes no other's turn to try", () => {
    const { breaker } = watched();
    for (let now = 0; now < 100_000; now += 10) {
      if (!breaker.rejection("bad", now)) breaker.failed("bad", now, fault(), breaker.isOpen("bad"));
    }
    expect(breaker.rejection("good", 100_000)).toBeUndefined();
    for (let i = 0; i < 30; i++) breaker.failed(`key ${i}`, 100_001, fault(), false);
    // The whole is down. Who is refused for its own part has not tried for the others.
    expect(breaker.rejection("good", 100_002)).toBeDefined();
    breaker.failed("bad", 101_000, fault(), true);
    expect(breaker.rejection("bad", 101_500)).toBeDefined();
    expect(breaker.rejection("good", 102_100)).toBeUndefined();
  });

  it("is forgotten when nobody has asked it for a minute, so that the next one is told of", () => {
    const { breaker, told } = watched();
    for (let i = 0; i < 5; i++) breaker.failed("a", i * 10, fault(), false);
    breaker.succeeded("b", 70_000);
    expect(told).toEqual(["down", "up"]);
    for (let i = 0; i < 5; i++) breaker.failed("b", 70_000 + i * 10, fault(), false);
    expect(told).toEqual(["down", "up", "down"]);
  });
});

describe("many parts that fail", () => {
  it("are the whole, when none of them answers", () => {
    const { breaker, told } = watched();
    let asked = 0;
    for (let i = 0; i < 1000; i++) {
      const part = `key ${i}`;
      if (breaker.rejection(part, i)) continue;
      asked++;
      breaker.failed(part, i, fault(), false);
    }
    expect(asked).toBeLessThan(30);
    expect(told).toEqual(["down"]);
    expect(breaker.retryAfterMs("any", 999)).toBeGreaterThan(0);
    // One may try, whichever it is, and when it passes all may.
    expect(breaker.rejection("key 0", 1100)).toBeUndefined();
    expect(breaker.rejection("key 1", 1100)).toBeDefined();
    breaker.succeeded("key 0", 1101);
    expect(breaker.rejection("key 1", 1102)).toBeUndefined();
    expect(told).toEqual(["down", "up"]);
  });

  it("are not, as long as others answer", () => {
    const { breaker } = watched();
    for (let i = 0; i < 1000; i++) {
      breaker.failed(`key ${i}`, i, fault(), false);
      breaker.succeeded("healthy", i);
    }
    expect(breaker.rejection("another", 1001)).toBeUndefined();
  });

  it("are told of a bounded number", () => {
    const { breaker } = watched();
    for (let i = 0; i < 5000; i++) {
      breaker.failed(`key ${i}`, 1, fault(), false);
      breaker.succeeded("healthy", 1);
    }
    expect((breaker as unknown as { failing: Map<unknown, unknown> }).failing.size).toBeLessThanOrEqual(1001);
  });
});

describe("one fault", () => {
  it("is what fails many calls at once with the same error", () => {
    const { breaker, told } = watched();
    const error = new Error("a call for fifty");
    for (let i = 0; i < 50; i++) breaker.failed(ALL_SHARDS, 1, fault(error), false);
    expect(told).toEqual([]);
  });

  it("is not what a client goes on failing with: the same object may come again and again", () => {
    const { breaker, told } = watched();
    const error = new Error("never connected");
    for (let i = 0; i < 5; i++) breaker.failed(ALL_SHARDS, i * 20, fault(error), false);
    expect(told).toEqual(["down"]);
  });
});
