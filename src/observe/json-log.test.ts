/** Tests of log lines. */
import { createLimiter, memoryRateLimiter, memoryStore } from "sluice";
import { createObserver, type JsonLogOptions, jsonLog } from "sluice/observe";
import { fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";

/** An observed limiter with a limit of 1, and the lines that it has logged. */
function logged(options?: JsonLogOptions) {
  const lines: string[] = [];
  const clock = fakeClock(Date.UTC(2027, 0, 2, 3, 4, 5, 678));
  const observer = createObserver({ log: jsonLog((line) => void lines.push(line), options), clock });
  const policy = { capacity: 1, tokensPerSecond: 1, name: "api" };
  const limiter = createLimiter({ policy, store: memoryStore({ clock }), observer });
  return { lines, clock, observer, limiter };
}

describe("jsonLog", () => {
  it("logs denied decisions only, by default", () => {
    const { lines, limiter, observer } = logged();
    limiter.consumeSync("a");
    limiter.consumeSync("a");
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      {
        time: "2027-01-02T03:04:05.678Z",
        level: "warn",
        msg: "denied",
        rule: "api",
        policy: "api",
        key: observer.topKeys()[0]?.tag,
        cost: 1,
        retry_after_ms: 1000,
        remaining: 0,
        limit: 1,
        source: "store",
      },
    ]);
  });

  it("logs every decision with { allowed: 1, maxPerSecond: Infinity }", () => {
    const { lines, limiter } = logged({ allowed: 1, maxPerSecond: Number.POSITIVE_INFINITY });
    for (let i = 0; i < 1000; i++) limiter.consumeSync(`key ${i % 100}`);
    expect(lines).toHaveLength(1000);
    expect(lines.filter((line) => line.includes('"msg":"allowed"'))).toHaveLength(100);
  });

  it("logs shares of decisions exactly", () => {
    const { lines, limiter } = logged({ allowed: 0.1, denied: 0.5, maxPerSecond: Number.POSITIVE_INFINITY });
    for (let i = 0; i < 100; i++) {
      limiter.consumeSync(`key ${i}`);
      limiter.consumeSync(`key ${i}`);
    }
    expect(lines.filter((line) => line.includes('"msg":"allowed"'))).toHaveLength(10);
    expect(lines.filter((line) => line.includes('"msg":"denied"'))).toHaveLength(50);
  });

  it("writes at most 50 lines per second, and then how many were dropped", () => {
    const { lines, limiter, clock } = logged();
    for (let i = 0; i < 81; i++) limiter.consumeSync("a");
    expect(lines).toHaveLength(50);
    clock.advance(400);
    limiter.consumeSync("a");
    expect(lines).toHaveLength(52);
    expect(JSON.parse(lines[50] as string)).toMatchObject({ level: "warn", msg: "log lines dropped", dropped: 30 });
  });

  it("logs changes of state with a level", () => {
    const { lines, observer } = logged();
    const limiter = observer.wrap(memoryRateLimiter("5/h", { maxKeys: 1 }));
    limiter.consumeSync("a");
    limiter.consumeSync("b");
    expect(JSON.parse(lines[0] as string)).toMatchObject({ level: "warn", msg: "evicted", store: "memory-2" });
  });

  it("warns once about a log that throws, and decides as before", async () => {
    const warnings: string[] = [];
    const listen = (warning: Error) => void warnings.push(warning.message);
    process.on("warning", listen);
    const observer = createObserver({
      log: () => {
        throw new Error("disk full");
      },
    });
    const limiter = createLimiter({ policy: "1/d fixed", observer });
    for (let i = 0; i < 3; i++) limiter.consumeSync("a");
    await new Promise(setImmediate);
    process.off("warning", listen);
    expect(warnings).toEqual([expect.stringContaining("log of createObserver threw")]);
  });

  it("rejects invalid options with a sentence", () => {
    expect(() => jsonLog("x" as never)).toThrow("write must be a function, such as console.log");
    expect(() => jsonLog(() => {}, { allowed: 2 })).toThrow("allowed must be a share from 0 to 1, but received 2.");
    expect(() => jsonLog(() => {}, { denied: Number.NaN })).toThrow("denied must be a share");
    expect(() => jsonLog(() => {}, { maxPerSecond: 0 })).toThrow("maxPerSecond must be a number >= 1");
    expect(() => jsonLog(() => {}, { level: "debug" } as never)).toThrow('"level" is not an option of jsonLog');
    expect(() => createObserver({ log: {} as never })).toThrow("log must be a function, such as jsonLog(console.log)");
    expect(() => createObserver({ secret: "short" })).toThrow(/^secret must be a text of at least 16 characters\. See/);
    expect(() => createObserver({ topKeys: 0 })).toThrow("topKeys must be a whole number >= 1");
    expect(() => createObserver({ clock: {} as never })).toThrow("clock must be an object with now()");
    expect(() => createObserver().wrap({} as never)).toThrow("limiter must be a limiter");
    expect(() => createObserver().on("x" as never)).toThrow("listener must be a function");
  });
});
