/** The gate without a server: invalid options, refunds, delays, callbacks and presets. */
import { fixedWindow, leakyBucket, memoryRateLimiter, SluiceError, tokenBucket } from "sluice";
import { fakeClock } from "sluice/testing";
import { afterEach, describe, expect, it, vi } from "vitest";
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
      pendingHeaders: { fields: { RateLimit: '"2/m burst 2";r=0;t=30' }, exhausted: true },
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
    const headers = ["draft-6", "draft-7", "legacy"] as const;
    const gate = gateOf({ limiter: { consume: () => ({ allowed: false, ...numbers }) as never }, headers });
    const { rejection } = enter(gate) as GateReject<Args>;
    expect(Object.keys(rejection.headers)).toEqual(["Cache-Control", "Content-Type"]);
    expect(rejection.body).not.toMatch(/NaN|Infinity|undefined/);
  });

  it("has fractions rounded down in its fields", () => {
    const decision = { allowed: true, policy: "p", limit: 1.5, remaining: 0.5, resetAfterMs: 1.5, nextAfterMs: 1.5 };
    const pass = enter(gateOf({ limiter: { consume: () => decision as never } })) as GatePass;
    expect(pass.pendingHeaders?.fields).toEqual({ "RateLimit-Policy": '"p";q=1', RateLimit: '"p";r=0;t=1' });
  });
});

describe("a refund", () => {
  async function left(
    options: Partial<Options>,
    outcome: Parameters<NonNullable<GatePass["refundOnFinish"]>>[0],
    times = 1,
  ) {
    const limiter = memoryRateLimiter(tokenBucket("10/d"), { clock: fakeClock() });
    const result = enter(gateOf({ limiter, cost: 4, key: () => "k", ...options })) as GatePass;
    for (let i = 0; i < times; i++) await result.refundOnFinish?.(outcome);
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
    ["succeeded", { status: 404, aborted: false }, 6],
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
    for (let i = 0; i < 5; i++) await first.refundOnFinish?.({ status: 200, aborted: false });
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
    await (enter(gate) as GatePass).refundOnFinish?.({ status: 200, aborted: false });
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
    await ((await enter(gate)) as GatePass).refundOnFinish?.({ status: 500, aborted: false });
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
    await (enter(gate) as GatePass).refundOnFinish?.({ status: 200, aborted: false });
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

describe("a callback", () => {
  it("does not affect the request if it rejects", async () => {
    const fail = async () => {
      throw new Error("listener");
    };
    const gate = gateOf({ policy: "2/m", onDecision: fail as never, onError: fail as never, refundIf: fail as never });
    const result = enter(gate) as GatePass;
    expect(result).toMatchObject({ pendingHeaders: {} });
    await result.refundOnFinish?.({ status: 200, aborted: false });
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

describe("a token", () => {
  it("is reported once if the keys can't be fetched, and the user is identified by IP address", async () => {
    const events: unknown[] = [];
    const keys: string[] = [];
    const gate = gateOf({
      policy: "9/m",
      identity: { jwt: { algorithms: ["RS256"], jwks: "http://127.0.0.1:1/jwks" } },
      onEvent: (event) => void events.push(event),
      onDecision: ({ key }) => void keys.push(key),
    });
    const token = `${btoa('{"alg":"RS256"}')}.${btoa('{"sub":"alice"}')}.AAAA`.replaceAll("=", "");
    for (let i = 0; i < 3; i++) await enter(gate, { headers: { authorization: `Bearer ${token}` } });
    expect(keys).toEqual(["ip:192.0.2.1", "ip:192.0.2.1", "ip:192.0.2.1"]);
    expect(events).toMatchObject([{ type: "warning", message: expect.stringContaining("can't be verified") }]);
  });

  it("is not reported if it is invalid", async () => {
    const events: unknown[] = [];
    const secret = "0123456789abcdef0123456789abcdef";
    const identity = { jwt: { algorithms: ["HS256"], secret } };
    const gate = gateOf({ policy: "9/m", identity, onEvent: (event) => void events.push(event) });
    for (const token of ["x", "a.b.c", `${btoa('{"alg":"none"}')}.${btoa("{}")}.`]) {
      await enter(gate, { headers: { authorization: `Bearer ${token}` } });
    }
    expect(events).toEqual([]);
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

describe("preset", () => {
  const globals = globalThis as { Netlify?: unknown };
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.unstubAllGlobals();
    delete globals.Netlify;
  });

  const keyOf = (options: Partial<Options>, request: Fake): string => {
    let seen = "";
    const gate = gateOf({ policy: fixedWindow("9/m"), onDecision: ({ key }) => void (seen = key), ...options });
    enter(gate, request);
    return seen;
  };

  it.each([
    ["vercel", "x-vercel-forwarded-for", (): void => void vi.stubEnv("VERCEL", "1")],
    ["fly", "fly-client-ip", (): void => void vi.stubEnv("FLY_APP_NAME", "app")],
    ["netlify", "x-nf-client-connection-ip", (): void => void (globals.Netlify = {})],
    [
      "cloudflare",
      "cf-connecting-ip",
      (): void => void vi.stubGlobal("navigator", { userAgent: "Cloudflare-Workers" }),
    ],
  ] as const)("%s is trusted on its own platform only", (identity, header, startPlatform) => {
    const request = { headers: { [header]: "203.0.113.9" }, peer: "10.0.0.1" };
    expect(keyOf({ identity }, request)).toBe("ip:10.0.0.1");
    startPlatform();
    expect(keyOf({ identity }, request)).toBe("ip:203.0.113.9");
    for (const invalid of ["203.0.113.9, 1.2.3.4", "unknown", ""]) {
      expect(keyOf({ identity }, { headers: { [header]: invalid }, peer: "10.0.0.1" })).toBe("ip:10.0.0.1");
    }
  });

  it("cloudflare is trusted if the peer is in its address ranges", () => {
    const headers = { "cf-connecting-ip": "203.0.113.9" };
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "172.70.1.1" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "2606:4700::1" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "198.51.100.1" })).toBe("ip:198.51.100.1");
  });

  it.each([
    ["nginx", "x-real-ip"],
    ["fastly", "fastly-client-ip"],
    ["aws", "x-forwarded-for"],
  ] as const)("%s is trusted from the proxies in trustedProxies", (preset, header) => {
    const identity = { preset, trustedProxies: ["10.0.0.0/8"] };
    const headers = { [header]: "203.0.113.9" };
    expect(keyOf({ identity }, { headers, peer: "10.1.2.3" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity }, { headers, peer: "198.51.100.1" })).toBe("ip:198.51.100.1");
  });
});
