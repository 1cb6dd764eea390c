/** Refunds by `refundIf`, and of requests that would be delayed for too long. */
import { fixedWindow, leakyBucket, memoryRateLimiter, tokenBucket } from "sluice";
import { defineRules } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { decisionOf } from "./decisions.ts";
import { type Gate, type GatePass, type GateReject, openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";
import type { RequestReader } from "./request-reader.ts";

interface Fake {
  method?: string;
  headers?: Record<string, string>;
  peer?: string | undefined;
  body?: boolean;
}
type Args = readonly [Fake];
type Options = RateLimitOptions<Args, void>;

const reader: RequestReader<Args> = {
  method: ([request]) => request.method ?? "GET",
  header: ([request], name) => request.headers?.[name],
  peer: ([request]) => ("peer" in request ? request.peer : "192.0.2.1"),
  hasBody: ([request]) => request.body === true,
  path: () => "/",
  body: async () => undefined,
  repeatable: true,
};

function gateOf(options: Options): Gate<Args> {
  return openGate(options, reader);
}

const enter = (gate: Gate<Args>, request: Fake = {}) => gate.enter([request]);

function loginRules() {
  return defineRules({
    rules: [{ name: "login", match: "/", limits: { ip: "1000/d" }, refundIf: "succeeded" }],
    fallback: "unlimited",
  });
}

describe("a refund", () => {
  async function left(options: Partial<Options>, outcome: Parameters<NonNullable<GatePass["onFinish"]>>[0], times = 1) {
    const limiter = memoryRateLimiter(tokenBucket("10/d"), { clock: fakeClock() });
    const result = enter(gateOf({ limiter, cost: 4, key: () => "k", ...options })) as GatePass;
    for (let i = 0; i < times; i++) await result.onFinish?.(outcome);
    return (await limiter.peek("k")).remaining;
  }

  it.each([
    ["failed", { status: 500, aborted: false }, 10],
    ["failed", { status: 400, aborted: false }, 10],
    ["failed", { status: 399, aborted: false }, 6],
    ["failed", { status: undefined, error: new Error(), aborted: false }, 10],
    ["failed", { status: 200, error: new Error(), aborted: false }, 10],
    ["failed", { status: 500, aborted: true }, 6],
    ["failed", { status: undefined, error: new Error("AbortError"), aborted: true }, 6],
    ["succeeded", { status: 200, aborted: false }, 10],
    ["succeeded", { status: 299, aborted: false }, 10],
    ["succeeded", { status: 302, aborted: false }, 6],
    ["succeeded", { status: 303, aborted: false }, 6],
    ["succeeded", { status: 404, aborted: false }, 6],
    ["reported", { status: 200, aborted: false }, 6],
    ["reported", { status: 401, aborted: false }, 6],
    ["succeeded", { status: 200, aborted: true }, 6],
    ["succeeded", { status: undefined, aborted: true }, 6],
  ] as const)("with refundIf %s after %o leaves %i", async (refundIf, outcome, expected) => {
    expect(await left({ refundIf }, outcome)).toBe(expected);
  });

  it("happens once, however often a request finishes", async () => {
    expect(await left({ refundIf: () => true }, { status: 200, aborted: false }, 5)).toBe(10);
    const limiter = memoryRateLimiter(tokenBucket("10/d"), { clock: fakeClock() });
    const gate = gateOf({ limiter, key: () => "k", refundIf: () => true });
    const first = enter(gate) as GatePass;
    enter(gate);
    for (let i = 0; i < 5; i++) await first.onFinish?.({ status: 200, aborted: false });
    expect((await limiter.peek("k")).remaining).toBe(9);
  });

  it("is left out for a degraded decision", async () => {
    const refund = vi.fn();
    const decision = {
      allowed: true,
      policy: "p",
      limit: 1,
      remaining: 0,
      resetAfterMs: 0,
      nextAfterMs: 0,
      degraded: true,
    };
    const gate = gateOf({ limiter: { consume: () => decision as never, refund }, refundIf: () => true });
    await (enter(gate) as GatePass).onFinish?.({ status: 200, aborted: false });
    expect(refund).not.toHaveBeenCalled();
  });

  it("is reported as refund-lost if it fails", async () => {
    const events: unknown[] = [];
    const limiter = memoryRateLimiter(tokenBucket("10/d"));
    const failing = {
      consume: (key: string) => limiter.consume(key),
      refund: () => Promise.reject(new Error("connection lost")),
    };
    const gate = gateOf({ limiter: failing, refundIf: "failed", onEvent: (event) => void events.push(event) });
    await ((await enter(gate)) as GatePass).onFinish?.({ status: 500, aborted: false });
    expect(events).toMatchObject([{ type: "refund-lost", cost: 1 }]);
  });

  it("awaits a refundIf function", async () => {
    expect(await left({ refundIf: async () => false }, { status: 200, aborted: false })).toBe(6);
    expect(await left({ refundIf: async () => true }, { status: 200, aborted: false })).toBe(10);
  });

  it("passes errors of refundIf to onError", async () => {
    const errors: unknown[] = [];
    const fail = () => {
      throw new Error("refundIf");
    };
    const gate = gateOf({ policy: "9/m", refundIf: fail, onError: (error) => void errors.push(error) });
    await (enter(gate) as GatePass).onFinish?.({ status: 200, aborted: false });
    expect(errors).toMatchObject([{ message: "refundIf" }]);
  });
});

describe("a leaky bucket", () => {
  it("delays requests, and rejects those over maxDelayMs without keeping their place", async () => {
    const limiter = memoryRateLimiter(leakyBucket("1/s", { burst: 30 }), { clock: fakeClock() });
    const gate = gateOf({ limiter, key: () => "k" });
    for (let i = 0; i <= 10; i++) expect(enter(gate)).toMatchObject({ delayMs: i * 1000 });
    for (let i = 0; i < 3; i++) {
      const denied = (await enter(gate)) as GateReject<Args>;
      expect(denied.rejection.status).toBe(429);
      expect(denied.rejection.headers["Retry-After"]).toBe("1");
    }
  });

  it("is the violated policy if it is one of several and the delay is too long", async () => {
    const policies = [leakyBucket("1/m", { burst: 9, name: "queue" }), fixedWindow("5/h", { name: "hourly" })];
    const gate = gateOf({ policies, key: () => "k" });
    expect(enter(gate)).toMatchObject({ delayMs: 0 });
    for (let i = 0; i < 3; i++) {
      const { rejection, limited } = (await enter(gate)) as GateReject<Args>;
      expect(JSON.parse(rejection.body)).toMatchObject({
        "violated-policies": ["queue"],
        detail: "Limit of 9 requests per 540 s reached.",
      });
      expect(rejection.headers.RateLimit).toMatch(/^"queue";r=8;t=\d+, "hourly";r=4;t=\d+$/);
      expect(limited?.decision.policy).toBe("queue");
    }
  });

  it("refunds a rejected request before the response is sent", async () => {
    const limiter = memoryRateLimiter(leakyBucket("1/m", { burst: 9 }), { clock: fakeClock() });
    const refunds: string[] = [];
    const slow = {
      consume: (key: string) => limiter.consume(key),
      async refund() {
        await Promise.resolve();
        refunds.push("refunded");
      },
    };
    const gate = gateOf({ limiter: slow, key: () => "k" });
    await enter(gate);
    await enter(gate);
    expect(refunds).toEqual(["refunded"]);
  });

  it("delays nothing in shadow mode", () => {
    const gate = gateOf({ policy: leakyBucket("1/s", { burst: 9 }), mode: "shadow" });
    for (let i = 0; i < 5; i++) expect(enter(gate)).toMatchObject({ delayMs: 0, pendingHeaders: undefined });
  });
});

describe("a success that the handler reports", () => {
  const SUCCESS = { status: 303, aborted: false };
  function setUp(options: Partial<Options>) {
    const limiter = memoryRateLimiter(tokenBucket("10/d"), { clock: fakeClock() });
    const request: Fake = {};
    const result = enter(gateOf({ limiter, cost: 4, key: () => "k", ...options }), request) as GatePass;
    return { request, finish: result.onFinish, left: async () => (await limiter.peek("k")).remaining };
  }

  it.each(["reported", "succeeded"] as const)(
    "is refunded once with refundIf %s, whatever the status",
    async (refundIf) => {
      const { request, finish, left } = setUp({ refundIf });
      decisionOf(request)?.succeeded?.();
      expect(await left()).toBe(6);
      await finish?.(SUCCESS);
      decisionOf(request)?.succeeded?.();
      expect(await left()).toBe(10);
    },
  );

  it("is refunded if it is reported after the end, or after the client has left", async () => {
    for (const outcome of [SUCCESS, { status: undefined, aborted: true }]) {
      const { request, finish, left } = setUp({ refundIf: "reported" });
      await finish?.(outcome);
      expect(await left()).toBe(6);
      for (let i = 0; i < 3; i++) decisionOf(request)?.succeeded?.();
      expect(await left()).toBe(10);
    }
  });

  it("reaches an earlier middleware, although the decision is that of a later one", async () => {
    const { request, finish, left } = setUp({ refundIf: "reported" });
    enter(gateOf({ policy: "5/m" }), request);
    decisionOf(request)?.succeeded?.();
    await finish?.(SUCCESS);
    expect(await left()).toBe(10);
  });

  it("leaves the decision as it is for copies and JSON, and adds nothing without refundIf", () => {
    const { request } = setUp({ refundIf: "reported" });
    const decision = decisionOf(request);
    expect(structuredClone(decision)).toEqual(JSON.parse(JSON.stringify(decision)));
    expect(decisionOf(setUp({}).request)?.succeeded).toBeUndefined();
    expect(decisionOf(setUp({ refundIf: "failed" }).request)?.succeeded).toBeUndefined();
    const frozen = { consume: () => Object.freeze({ allowed: true } as never), refund: vi.fn() };
    const third = setUp({ limiter: frozen, refundIf: "reported" });
    expect(decisionOf(third.request)?.succeeded).toBeTypeOf("function");
  });

  it("is expected: warns once if none of 100 requests reports it, and if nearly all are refunded by their status", async () => {
    const warnings = async (refundIf: "reported" | "succeeded", statuses: readonly number[]) => {
      const onEvent = vi.fn();
      const gate = gateOf({ policy: { capacity: 1000, tokensPerSecond: 1, name: "logins" }, refundIf, onEvent });
      for (const status of statuses) await (enter(gate) as GatePass).onFinish?.({ status, aborted: false });
      return onEvent.mock.calls.map(([event]) => (event as { message: string }).message);
    };
    const times = (count: number, status: number) => new Array<number>(count).fill(status);
    expect(await warnings("succeeded", times(19, 200))).toEqual([]);
    expect(await warnings("succeeded", [...times(18, 200), 401, 401, ...times(9, 200)])).toEqual([]);
    expect(await warnings("succeeded", times(100, 200))).toEqual([
      expect.stringMatching(/^The limit "logins" limits next to nothing.*refundIf: "reported".*succeeded\?\.\(\)/),
    ]);
    expect(await warnings("reported", times(99, 401))).toEqual([]);
    expect(await warnings("reported", times(300, 401))).toEqual([expect.stringMatching(/counts every request/)]);
  });

  it.each<[string, Options]>([
    ['The limit "1000/d"', { policy: "1000/d" }],
    ['Rule "login"', { rules: loginRules() }],
  ])("warns the process once, with SLUICE_REFUNDS, without onEvent: %s", async (subject, options) => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => warned.mockRestore());
    const gate = gateOf({ ...options, ...(options.rules ? {} : { refundIf: "succeeded" }) });
    for (let i = 0; i < 50; i++) {
      const pass = (await enter(gate)) as GatePass;
      await pass.onFinish?.({ status: 200, aborted: false });
    }
    expect(warned.mock.calls).toEqual([
      [
        expect.stringMatching(
          new RegExp(`^${subject} limits next to nothing, because nearly all requests were refunded`),
        ),
        { type: "SluiceWarning", code: "SLUICE_REFUNDS" },
      ],
    ]);
  });
});
