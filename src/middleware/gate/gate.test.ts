/** The gate without a server: invalid options, third-party limiters, callbacks and errors. */
import { fixedWindow, memoryRateLimiter, SluiceError, tokenBucket } from "sluice";
import { describe, expect, it } from "vitest";
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
const isRejected = (result: unknown): result is GateReject<Args> =>
  (result as GateReject<Args>).rejection !== undefined;

describe("a decision", () => {
  it("is made without a promise for a memory limiter with a sync key, cost and skip", () => {
    const gate = gateOf({ policy: "2/m", key: () => "k", cost: () => 2, skip: () => false });
    expect(enter(gate)).toMatchObject({
      pendingHeaders: { fields: { RateLimit: '"2/m";r=0;t=30' }, exhausted: true },
    });
    expect(isRejected(enter(gate))).toBe(true);
    expect(enter(gateOf({ policies: ["2/m", "9/h"] }))).not.toHaveProperty("then");
  });

  it("is awaited if a callback returns a promise", async () => {
    for (const asyncOptions of [
      { key: async () => "k" },
      { cost: async () => 1 },
      { skip: async () => false },
      { limiter: async () => memoryRateLimiter(tokenBucket("2/m")), policy: undefined },
    ]) {
      const result = enter(gateOf({ policy: "2/m", ...asyncOptions } as Options));
      expect(result).toHaveProperty("then");
      expect(await result).toMatchObject({ pendingHeaders: { exhausted: false } });
    }
  });
});

describe("invalid options", () => {
  it.each<[string, Options | unknown, string]>([
    ["no limit", {}, "rateLimit"],
    ["no options", undefined, "rateLimit"],
    ["two limits", { policy: "1/s", policies: ["1/s"] }, "rateLimit"],
    ["an invalid rate", { policy: "fast" }, "policy"],
    ["an empty list of policies", { policies: [] }, "policies"],
    ["policies that are not a list", { policies: "10/s" }, "policies"],
    ["one policy twice", { policies: ["10/s", "10/s"] }, "policies"],
    ["an object that is not a limiter", { limiter: {} }, "limiter"],
    ["a limiter without refund", { limiter: { consume: () => true }, refundIf: "failed" }, "refundIf"],
    ["a store", { policy: "1/s", store: {} }, "store"],
    ["an unknown option", { policy: "1/s", banana: 5 }, "banana"],
    ["an option of another library", { windowMs: 60_000, max: 5 }, "windowMs"],
    ["a key that is a string", { policy: "1/s", key: "ip" }, "key"],
    ["a negative cost", { policy: "1/s", cost: -1 }, "cost"],
    ["a cost that is a string", { policy: "1/s", cost: "1" }, "cost"],
    ["an unknown header mode", { policy: "1/s", headers: "draft-5" }, "headers"],
    ["headers: true", { policy: "1/s", headers: true }, "headers"],
    ["header modes with the same names", { policy: "1/s", headers: ["draft-7", "draft-8"] }, "headers"],
    ["an unknown mode", { policy: "1/s", mode: "dry-run" }, "mode"],
    ["an infinite delay", { policy: "1/s", maxDelayMs: Infinity }, "maxDelayMs"],
    ["an invalid refundIf", { policy: "1/s", refundIf: true }, "refundIf"],
    ["key and identity", { policy: "1/s", key: () => "k", identity: "fly" }, "identity"],
    ["identity: true", { policy: "1/s", identity: true }, "identity"],
  ])("are rejected when rateLimit is called: %s", (_what, options, option) => {
    let error: unknown;
    try {
      gateOf(options as Options);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(SluiceError);
    expect((error as SluiceError).option).toBe(option);
  });

  it("are rejected with the names of the presets if the runtime has no sockets and identity is missing", () => {
    const peerless = { ...reader, peerless: true };
    expect(() => openGate<Args, void>({ policy: "1/s" }, peerless)).toThrow(
      /cloudflare, vercel, netlify, fly, fastly, aws, nginx/,
    );
    expect(() => openGate<Args, void>({ policy: "1/s", identity: "cloudflare" }, peerless)).not.toThrow();
    expect(() => openGate<Args, void>({ policy: "1/s", key: () => "k" }, peerless)).not.toThrow();
  });
});

describe("a third-party limiter", () => {
  it("throws invalid-limiter if it does not return a decision", async () => {
    for (const result of [true, undefined, null, {}, { success: true }, Promise.resolve(true)]) {
      const gate = gateOf({ limiter: { consume: () => result as never } });
      const error = await Promise.resolve()
        .then(() => enter(gate))
        .catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "invalid-limiter" });
    }
  });

  it("throws invalid-limiter if a limiter function returns undefined", () => {
    expect(() => enter(gateOf({ limiter: () => undefined as never }))).toThrow(/invalid-limiter/);
  });

  it("adds no fields if its decision has no numbers", () => {
    const gate = gateOf({ limiter: { consume: () => ({ allowed: true }) as never } });
    expect(enter(gate)).toMatchObject({ pendingHeaders: undefined });
  });

  it.each([
    {},
    { retryAfterMs: undefined },
    { retryAfterMs: Infinity },
    { retryAfterMs: Number.NaN },
    { policy: "p", limit: 5, remaining: 0 },
    { policy: "p", limit: Infinity, remaining: 0, resetAfterMs: 1, nextAfterMs: 1 },
    { policy: "p", limit: 5, remaining: -1, resetAfterMs: 1, nextAfterMs: 1 },
  ])("adds no fields if its decision has invalid numbers: %o", (numbers) => {
    const headers = ["draft-6", "draft-7"] as const;
    const gate = gateOf({ limiter: { consume: () => ({ allowed: false, ...numbers }) as never }, headers });
    const { rejection } = enter(gate) as GateReject<Args>;
    expect(Object.keys(rejection.headers)).toEqual(["Cache-Control", "Content-Type"]);
    expect(rejection.body).not.toMatch(/NaN|Infinity|undefined/);
  });

  it.each<[object, Record<string, string>]>([
    [{ allowed: true }, {}],
    [{ allowed: true, remaining: 4 }, { "X-RateLimit-Remaining": "4" }],
    [
      { allowed: true, remaining: 4.9, limit: 10 },
      { "X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "4" },
    ],
    [{ allowed: true, remaining: -1, limit: Infinity, resetAfterMs: Number.NaN }, {}],
    [{ allowed: true, remaining: 4, degraded: true }, {}],
    [{ allowed: true, remaining: 4, unknown: true }, {}],
    [
      { allowed: false, remaining: 0, retryAfterMs: 1500 },
      { "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "2" },
    ],
    [{ allowed: false, retryAfterMs: null }, {}],
  ])("sends what is known of it with headers: legacy (issue 30): %o", async (decision, expected) => {
    const limiter = { consume: async () => decision as never };
    const gate = gateOf({ limiter, headers: { mode: "legacy", resetFormat: "delta" } });
    const result = (await enter(gate)) as GateReject<Args> | GatePass;
    const sent = result.rejection?.headers ?? (result as GatePass).pendingHeaders?.fields ?? {};
    const legacy = Object.entries(sent).filter(([name]) => name.startsWith("X-"));
    expect(Object.fromEntries(legacy)).toEqual(expected);
  });

  it("has fractions rounded down in its fields", () => {
    const decision = { allowed: true, policy: "p", limit: 1.5, remaining: 0.5, resetAfterMs: 1.5, nextAfterMs: 1.5 };
    const pass = enter(gateOf({ limiter: { consume: () => decision as never } })) as GatePass;
    expect(pass.pendingHeaders?.fields).toEqual({ "RateLimit-Policy": '"p";q=1', RateLimit: '"p";r=0;t=1' });
  });
});

describe("a callback", () => {
  it("does not affect the request if it rejects", async () => {
    const fail = async () => {
      throw new Error("listener");
    };
    const gate = gateOf({ policy: "2/m", onDecision: fail as never, onError: fail as never, refundIf: fail as never });
    const result = enter(gate) as GatePass;
    expect(result).toMatchObject({ pendingHeaders: {} });
    await result.onFinish?.({ status: 200, aborted: false });
    expect(gate.handleError(new Error("key"), [{}])).toMatchObject({ message: "key" });
    // An unhandled rejection would fail the run.
    await new Promise((resolve) => setTimeout(resolve, 0));
  });

  it("does not affect the request if it throws", () => {
    const fail = () => {
      throw new Error("listener");
    };
    expect(enter(gateOf({ policy: "2/m", onDecision: fail, onEvent: fail }))).toMatchObject({ pendingHeaders: {} });
  });

  it("is called once about a key that is new with almost every request", () => {
    const events: unknown[] = [];
    let next = 0;
    const gate = gateOf({ policy: "9/m", key: () => `k${next++}`, onEvent: (event) => void events.push(event) });
    for (let i = 0; i < 5000; i++) enter(gate);
    expect(events).toMatchObject([
      { type: "warning", message: expect.stringContaining("1000 of the last 1000 requests") },
    ]);
  });

  it("is not called about repeated keys or about IP addresses", () => {
    const events: unknown[] = [];
    let next = 0;
    const onEvent = (event: unknown) => void events.push(event);
    const gates = [
      // 900 of 1000 are new, which is not over 90 %.
      gateOf({ policy: "9/m", key: () => `k${next++ % 1000 < 899 ? next : 0}`, onEvent }),
      gateOf({ policy: "9/m", onEvent }),
    ];
    for (let i = 0; i < 3000; i++) {
      for (const gate of gates) enter(gate, { peer: `10.0.${i >> 8}.${i & 255}` });
    }
    expect(events).toEqual([]);
  });

  it("is called once about policies that an older draft can't list", () => {
    const events: unknown[] = [];
    const policies = [fixedWindow("5/m", { name: "a" }), fixedWindow("5/h", { name: "b" })];
    const onEvent = (event: unknown) => void events.push(event);
    const gate = gateOf({ policies, headers: ["draft-6", "draft-7"], onEvent });
    for (let i = 0; i < 3; i++) {
      expect((enter(gate) as GatePass).pendingHeaders?.fields["RateLimit-Policy"]).toBe("5;w=3600");
    }
    expect(events).toMatchObject([{ type: "warning", message: expect.stringContaining("two policies of 5") }]);
  });

  it("is called once about a proxy that identity does not name", () => {
    const events: unknown[] = [];
    const onEvent = (event: unknown) => void events.push(event);
    const request = { headers: { "x-forwarded-for": "203.0.113.7" }, peer: "10.0.0.1" };
    const gate = gateOf({ policy: "9/m", onEvent });
    for (let i = 0; i < 3; i++) enter(gate, request);
    enter(gateOf({ policy: "9/m", identity: { trustedProxies: 1 }, onEvent }), request);
    enter(gateOf({ policy: "9/m", identity: "peer", onEvent }), request);
    expect(events).toMatchObject([{ type: "warning", message: expect.stringContaining("identity") }]);
  });
});

describe("a unit", () => {
  it("appears in the body and in the fields", () => {
    const gate = gateOf({ policy: "2/m", key: () => "k", cost: 2, headers: { unit: "content-bytes" } });
    enter(gate);
    const { rejection } = enter(gate) as GateReject<Args>;
    expect(JSON.parse(rejection.body).detail).toBe("Limit of 2 content-bytes per 60 s reached.");
    expect(rejection.headers["RateLimit-Policy"]).toContain('qu="content-bytes"');
  });
});

describe("the options", () => {
  it("are copied, so later changes have no effect", () => {
    const options: Options = { policy: "2/m", cost: 1 };
    const gate = gateOf(options);
    options.cost = 2;
    options.mode = "shadow";
    expect([enter(gate), enter(gate), enter(gate)].map(isRejected)).toEqual([false, false, true]);
  });

  it("throw for a partition key that is not base64", () => {
    const gate = gateOf({ policy: "2/m", key: () => "a\r\nb", headers: { partitionKey: (key) => key } });
    expect(() => enter(gate)).toThrow(/base64/);
  });
});

describe("an error", () => {
  it.each([undefined, null, "", 0, "route"])("is created for a thrown value that is not an Error: %j", (thrown) => {
    const outcome = gateOf({ policy: "2/m" }).handleError(thrown, [{}]);
    expect(outcome).toBeInstanceOf(SluiceError);
    expect((outcome as Error).cause).toBe(thrown);
  });

  it("of onError replaces the error it was called with", () => {
    const fail = () => {
      throw new Error("second");
    };
    expect(gateOf({ policy: "2/m", onError: fail }).handleError(new Error("first"), [{}])).toMatchObject({
      message: "second",
    });
  });

  it("allows the request in shadow mode, and is reported", () => {
    const [errors, events]: unknown[][] = [[], []];
    const key = () => {
      throw new Error("key");
    };
    const gate = gateOf({ policy: "9/m", key, mode: "shadow", onEvent: (event) => void events?.push(event) });
    expect(gate.handleError(new Error("key"), [{}])).toBe("allow");
    expect(events).toMatchObject([{ type: "warning", message: expect.stringContaining("key") }]);
    const withOnError = gateOf({ policy: "9/m", key, mode: "shadow", onError: (error) => void errors?.push(error) });
    expect(withOnError.handleError(new Error("key"), [{}])).toBe("allow");
    expect(errors).toHaveLength(1);
  });

  it("is thrown for a request without an IP address, unless unidentified is share", () => {
    expect(() => enter(gateOf({ policy: "9/m" }), { peer: undefined })).toThrow(/unidentified/);
    const shared = gateOf({ policy: "1/m", identity: { unidentified: "share" } });
    expect(isRejected(enter(shared, { peer: undefined }))).toBe(false);
    expect(isRejected(enter(shared, { peer: undefined }))).toBe(true);
  });
});
