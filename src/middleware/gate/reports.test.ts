/** Reports of problems: to the callback that is set for them, or as a process warning, once. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { combine, memoryRateLimiter, SluiceError, slidingWindow } from "sluice";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Gate, type GatePass, openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";
import type { RequestReader } from "./request-reader.ts";

interface Fake {
  headers?: Record<string, string>;
  peer?: string;
}
type Args = readonly [Fake];
type Options = RateLimitOptions<Args, void>;

const reader: RequestReader<Args> = {
  method: () => "GET",
  header: ([request], name) => request.headers?.[name],
  peer: ([request]) => request.peer ?? "192.0.2.1",
  hasBody: () => false,
  path: () => "/",
  body: async () => undefined,
};

const gateOf = (options: Options): Gate<Args> => openGate(options, reader);
const enter = (gate: Gate<Args>, request: Fake = {}) => gate.enter([{ ...request }]);

/** The codes and texts of process warnings. */
let warnings: { code: string; text: string }[] = [];

beforeEach(() => {
  warnings = [];
  vi.spyOn(process, "emitWarning").mockImplementation(((text: string, { code }: { code: string }) => {
    warnings.push({ code, text });
  }) as never);
});
afterEach(() => void vi.restoreAllMocks());

const codes = () => warnings.map(({ code }) => code);
const fail = (): never => {
  throw new TypeError("broken callback");
};

describe("an undeclared proxy (issue 13)", () => {
  const forwarded = { headers: { "x-forwarded-for": "203.0.113.7" }, peer: "10.0.0.1" };

  it.each([
    ["127.0.0.1", "127.0.0.1"],
    ["::ffff:10.1.2.3", "10.1.2.3"],
    ["172.16.0.1", "172.16.0.1"],
    ["192.168.1.1", "192.168.1.1"],
    ["100.64.0.1", "100.64.0.1"],
    ["169.254.1.1", "169.254.1.1"],
    ["::1", "::1"],
    ["fd00::1", "fd00::1"],
    ["fe80::1%eth0", "fe80::1"],
  ])("at %s causes one warning that contains the fix", (peer, named) => {
    const gate = gateOf({ policy: "9/m" });
    for (let i = 0; i < 3; i++) enter(gate, { ...forwarded, peer });
    expect(codes()).toEqual(["SLUICE_UNTRUSTED_PROXY"]);
    expect(warnings[0]?.text).toContain(`identity: { trustedProxies: ["${named}"] }`);
    expect(warnings[0]?.text).toContain("docs/errors.md#sluice_untrusted_proxy");
  });

  it("that sends Forwarded causes one warning per middleware", () => {
    const request = { headers: { forwarded: "for=203.0.113.7" }, peer: "10.0.0.1" };
    for (const gate of [gateOf({ policy: "9/m" }), gateOf({ policy: "9/m" })]) {
      enter(gate, request);
      enter(gate, request);
    }
    expect(codes()).toEqual(["SLUICE_UNTRUSTED_PROXY", "SLUICE_UNTRUSTED_PROXY"]);
  });

  it("is detected if it is added after many requests", () => {
    const gate = gateOf({ policy: "1000/s" });
    for (let i = 0; i < 5000; i++) enter(gate, { peer: "10.0.0.1" });
    for (let i = 0; i < 256; i++) enter(gate, forwarded);
    expect(codes()).toEqual(["SLUICE_UNTRUSTED_PROXY"]);
  });

  it.each<[string, Partial<Options>, Fake]>([
    ["identity names it", { identity: { trustedProxies: ["10.0.0.1"] } }, forwarded],
    ["identity is peer", { identity: "peer" }, forwarded],
    ["key is set", { key: () => "k" }, forwarded],
    ["a public peer sends the header", {}, { ...forwarded, peer: "203.0.113.9" }],
    ["there is no forwarding header", {}, { peer: "10.0.0.1" }],
  ])("causes no warning if %s", (_what, options, request) => {
    const gate = gateOf({ policy: "9/m", ...options });
    for (let i = 0; i < 3; i++) enter(gate, request);
    expect(warnings).toEqual([]);
  });

  it("is reported to onEvent if that is set", () => {
    const events: unknown[] = [];
    enter(gateOf({ policy: "9/m", onEvent: (event) => void events.push(event) }), forwarded);
    expect([events, warnings]).toMatchObject([[{ type: "warning", message: expect.stringContaining("10.0.0.1") }], []]);
  });
});

describe("a trusted proxy without a client address (issue 13)", () => {
  it.each([
    ["x-forwarded-for", "unknown"],
    ["x-forwarded-for", "_hidden"],
    ["x-forwarded-for", ""],
    ["x-forwarded-for", "203.0.113.7, unknown, 10.0.0.2"],
    ["forwarded", "for=unknown"],
    ["forwarded", 'for="_gazonk"'],
    ["forwarded", "proto=https"],
    ["x-real-ip", "unknown"],
  ])("causes one warning: %s: %s", (header, value) => {
    const keys: string[] = [];
    const gate = gateOf({
      policy: "9/m",
      identity: { trustedProxies: ["10.0.0.0/8"], header },
      onDecision: ({ key }) => void keys.push(key),
    });
    for (let i = 0; i < 3; i++) enter(gate, { headers: { [header]: value }, peer: "10.0.0.1" });
    // All clients share the proxy's bucket.
    expect(new Set(keys).size).toBe(1);
    expect(codes()).toEqual(["SLUICE_MISSING_CLIENT_ADDRESS"]);
    expect(warnings[0]?.text).toContain(header);
  });

  it.each([
    ["203.0.113.7", "10.0.0.1"],
    ["unknown, 203.0.113.7", "10.0.0.1"],
    ["10.0.0.3, 10.0.0.2", "10.0.0.1"],
    ["unknown", "203.0.113.9"],
  ])("causes no warning: %s from %s", (value, peer) => {
    const gate = gateOf({ policy: "9/m", identity: { trustedProxies: ["10.0.0.0/8"] } });
    enter(gate, { headers: { "x-forwarded-for": value }, peer });
    enter(gate, { peer });
    expect(warnings).toEqual([]);
  });
});

describe("an error of a callback (issue 13)", () => {
  const failing: [string, Partial<Options>][] = [
    ["onDecision", { onDecision: fail }],
    ["onDecision", { onDecision: (async () => fail()) as never }],
    ["refundIf", { refundIf: fail }],
  ];

  async function trigger(options: Partial<Options>): Promise<void> {
    const gate = gateOf({ policy: "99/m", ...options });
    for (let i = 0; i < 3; i++) {
      const result = enter(gate) as GatePass;
      await result.onFinish?.({ status: 200, aborted: false });
    }
    await new Promise((resolve) => setTimeout(resolve, 0));
  }

  it.each(failing)("of %s causes one warning", async (name, options) => {
    await trigger(options);
    expect(codes()).toEqual(["SLUICE_CALLBACK_FAILED"]);
    expect(warnings[0]?.text).toContain(`${name} of rateLimit failed: TypeError: broken callback.`);
    expect(warnings[0]?.text).toContain("onError");
  });

  it.each(failing)("of %s is passed to onError every time if that is set", async (_name, options) => {
    const errors: unknown[] = [];
    await trigger({ ...options, onError: (error) => void errors.push(error) });
    expect(errors).toHaveLength(3);
    expect([errors[0], warnings]).toMatchObject([{ message: "broken callback" }, []]);
  });

  it.each([
    ["throws", fail],
    ["rejects", (async () => fail()) as () => never],
  ])("of onEvent that %s causes a warning, or is passed to onError with the request", async (_what, onEvent) => {
    const request = { headers: { "x-forwarded-for": "203.0.113.7" }, peer: "10.0.0.1" };
    enter(gateOf({ policy: "9/m", onEvent }), request);
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(codes()).toEqual(["SLUICE_CALLBACK_FAILED"]);
    const errors: unknown[][] = [];
    enter(gateOf({ policy: "9/m", onEvent, onError: (...args) => void errors.push(args) }), request);
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect([errors, warnings.length]).toMatchObject([[[{ message: "broken callback" }, request]], 1]);
  });

  it("of onEvent during the writing of headers is passed to onError", () => {
    const errors: unknown[] = [];
    const policies = [slidingWindow("5/m", { name: "a" }), slidingWindow("5/h", { name: "b" })];
    const onError = (error: unknown) => void errors.push(error);
    enter(gateOf({ policies, headers: "draft-7", onEvent: fail, onError }));
    expect([errors, warnings]).toMatchObject([[{ message: "broken callback" }], []]);
  });

  it("of onError causes a warning", async () => {
    const gate = gateOf({ policy: "9/m", onError: fail });
    expect(gate.handleError(new Error("first"), [{}])).toMatchObject({ message: "broken callback" });
    const rejecting = gateOf({ policy: "9/m", onError: (async () => fail()) as never });
    expect(rejecting.handleError(new Error("first"), [{}])).toMatchObject({ message: "first" });
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(codes()).toEqual(["SLUICE_CALLBACK_FAILED", "SLUICE_CALLBACK_FAILED"]);
    expect(warnings[0]?.text).not.toContain("Set onError");
  });
});

describe("a request that could not be checked (issue 13)", () => {
  it("causes one warning with the error, unless onError is set", () => {
    const gate = gateOf({ policy: "9/m" });
    for (let i = 0; i < 3; i++) gate.requestFailed(new Error("no address"));
    expect(codes()).toEqual(["SLUICE_REQUEST_FAILED"]);
    expect(warnings[0]?.text).toContain("A request could not be checked: Error: no address.");
    gateOf({ policy: "9/m", onError: () => undefined }).requestFailed(new Error("no address"));
    expect(warnings).toHaveLength(1);
  });

  it("causes a warning in shadow mode, although the request passes", () => {
    const gate = gateOf({ policy: "9/m", key: fail, mode: "shadow" });
    for (let i = 0; i < 3; i++) expect(gate.handleError(new Error("key"), [{}])).toBe("allow");
    expect(codes()).toEqual(["SLUICE_REQUEST_FAILED"]);
  });
});

describe("a report", () => {
  it.each([
    ["rejects with", async () => Promise.reject(Object.create(null))],
    [
      "throws",
      () => {
        throw Object.create(null);
      },
    ],
  ])("is made for a callback that %s a value without a string form", async (_how, onDecision) => {
    const gate = gateOf({ policy: "9/m", onDecision });
    expect(await enter(gate)).toMatchObject({ delayMs: 0 });
    await new Promise((resolve) => setImmediate(resolve));
    expect(codes()).toEqual(["SLUICE_CALLBACK_FAILED"]);
  });

  it("contains no stored key", () => {
    gateOf({ policy: "9/m" }).requestFailed(
      new SluiceError("foreign-value", "Not a bucket.", { option: "s1:{sk_live}b1s:api" }),
    );
    expect(codes()).toEqual(["SLUICE_REQUEST_FAILED"]);
    expect(warnings[0]?.text).not.toContain("sk_live");
  });

  it("is made for a new key with every request, without onEvent after 10 000 of them (issue 30)", () => {
    let count = 0;
    const gate = gateOf({ policy: "9/m", key: () => `request:${count++}` });
    for (let i = 0; i < 9999; i++) enter(gate);
    expect(codes()).toEqual([]);
    for (let i = 0; i < 20_000; i++) enter(gate);
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
    expect(warnings[0]?.text).toContain("10000 of the last 10000 requests had a new key");
  });

  it("is not made for a combination created per request from permanent limiters", () => {
    const limiters = [memoryRateLimiter("100/m"), memoryRateLimiter("1000/d fixed")];
    const gate = gateOf({ limiter: () => combine(limiters), key: () => "k" });
    for (let i = 0; i < 60; i++) enter(gate);
    expect(codes()).toEqual([]);
  });
});

describe("a limiter that copies the decisions of another one", () => {
  it("is refunded without the decision", async () => {
    const inner = memoryRateLimiter("2/d");
    const limiter: Options["limiter"] = {
      consume: async (key, cost) => ({ ...(await inner.consume(key, cost)) }),
      refund: (...args) => inner.refund(...args),
    };
    const gate = gateOf({ limiter, key: () => "k", refundIf: "failed" });
    const pass = (await enter(gate)) as GatePass;
    await pass.onFinish?.({ status: 500, aborted: false });
    expect((await inner.peek("k")).remaining).toBe(2);
  });
});

describe("keys of 500 KB (issue 13)", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("globalThis.gc") as (() => void) | undefined;

  it.skipIf(!collect)("are not retained by the statistics", () => {
    const events: unknown[] = [];
    let next = 0;
    const gate = gateOf({
      limiter: { consume: () => ({ allowed: true }) as never },
      key: () => `${next++}:`.padEnd(500_000, "x"),
      onEvent: (event) => void events.push(event),
    });
    collect?.();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 990; i++) enter(gate);
    collect?.();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000);
    for (let i = 0; i < 10; i++) enter(gate);
    expect(events).toMatchObject([{ message: expect.stringContaining("1000 of the last 1000") }]);
  });
});
