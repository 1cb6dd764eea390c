/** The step that all servers share, without a server: what is refused when it is built, and what no request shows. */
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
const stopped = (result: unknown): result is GateReject<Args> => (result as GateReject<Args>).rejection !== undefined;

describe("what can be decided at once", () => {
  it("is not awaited: memory, an address, a key and a cost", () => {
    const gate = gateOf({ policy: "2/m", key: () => "k", cost: () => 2, skip: () => false });
    expect(enter(gate)).toMatchObject({
      pendingHeaders: { fields: { RateLimit: '"2/m burst 2";r=0;t=30' }, exhausted: true },
    });
    expect(stopped(enter(gate))).toBe(true);
    expect(enter(gateOf({ policies: ["2/m", "9/h"] }))).not.toHaveProperty("then");
  });

  it("is awaited where one part of it is promised", async () => {
    for (const promised of [
      { key: async () => "k" },
      { cost: async () => 1 },
      { skip: async () => false },
      { limiter: async () => memoryRateLimiter(tokenBucket("2/m")), policy: undefined },
    ]) {
      const result = enter(gateOf({ policy: "2/m", ...promised } as Options));
      expect(result).toHaveProperty("then");
      expect(await result).toMatchObject({ pendingHeaders: { exhausted: false } });
    }
  });
});

describe("what is refused when it is built", () => {
  it.each<[string, Options | unknown, string]>([
    ["nothing", {}, "rateLimit"],
    ["no options", undefined, "rateLimit"],
    ["two limits", { policy: "1/s", policies: ["1/s"] }, "rateLimit"],
    ["a rate that is none", { policy: "fast" }, "policy"],
    ["no policies", { policies: [] }, "policies"],
    ["policies that are none", { policies: "10/s" }, "policies"],
    ["one policy twice", { policies: ["10/s", "10/s"] }, "policies"],
    ["a limiter that is none", { limiter: {} }, "limiter"],
    ["a limiter that can't give back", { limiter: { consume: () => true }, refundIf: "failed" }, "refundIf"],
    ["a store", { policy: "1/s", store: {} }, "store"],
    ["an unknown option", { policy: "1/s", banana: 5 }, "banana"],
    ["a name of another limiter", { windowMs: 60_000, max: 5 }, "windowMs"],
    ["a key that is a text", { policy: "1/s", key: "ip" }, "key"],
    ["a cost that is none", { policy: "1/s", cost: -1 }, "cost"],
    ["a cost that is a text", { policy: "1/s", cost: "1" }, "cost"],
    ["headers that are none", { policy: "1/s", headers: "draft-5" }, "headers"],
    ["headers that are true", { policy: "1/s", headers: true }, "headers"],
    ["headers that clash", { policy: "1/s", headers: ["draft-7", "draft-8"] }, "headers"],
    ["a mode that is none", { policy: "1/s", mode: "dry-run" }, "mode"],
    ["an endless delay", { policy: "1/s", maxDelayMs: Infinity }, "maxDelayMs"],
    ["a refund that is none", { policy: "1/s", refundIf: true }, "refundIf"],
    ["key and identity", { policy: "1/s", key: () => "k", identity: "fly" }, "identity"],
    ["trust in everybody", { policy: "1/s", identity: true }, "identity"],
  ])("%s", (_what, options, option) => {
    let error: unknown;
    try {
      gateOf(options as Options);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(SluiceError);
    expect((error as SluiceError).option).toBe(option);
  });

  it("names the presets where there are no sockets", () => {
    const peerless = { ...reader, peerless: true };
    expect(() => openGate<Args, void>({ policy: "1/s" }, peerless)).toThrow(
      /cloudflare, vercel, netlify, fly, fastly, aws, nginx/,
    );
    expect(() => openGate<Args, void>({ policy: "1/s", identity: "cloudflare" }, peerless)).not.toThrow();
    expect(() => openGate<Args, void>({ policy: "1/s", key: () => "k" }, peerless)).not.toThrow();
  });
});

describe("a limiter of others", () => {
  it("that answers no decision is an error, not a pass", async () => {
    for (const answer of [true, undefined, null, {}, { success: true }, Promise.resolve(true)]) {
      const gate = gateOf({ limiter: { consume: () => answer as never } });
      const error = await Promise.resolve()
        .then(() => enter(gate))
        .catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "invalid-limiter" });
    }
  });

  it("that is chosen for the request has to be one", () => {
    expect(() => enter(gateOf({ limiter: () => undefined as never }))).toThrow(/invalid-limiter/);
  });

  it("with a verdict and nothing else tells no figures", () => {
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
  ])("with strange figures (%o) tells nothing that is no number", (figures) => {
    const headers = ["draft-6", "draft-7", "legacy"] as const;
    const gate = gateOf({ limiter: { consume: () => ({ allowed: false, ...figures }) as never }, headers });
    const { rejection } = enter(gate) as GateReject<Args>;
    expect(Object.keys(rejection.headers)).toEqual(["Cache-Control", "Content-Type"]);
    expect(rejection.body).not.toMatch(/NaN|Infinity|undefined/);
  });

  it("with fractions tells whole numbers", () => {
    const figures = { allowed: true, policy: "p", limit: 1.5, remaining: 0.5, resetAfterMs: 1.5, nextAfterMs: 1.5 };
    const told = (enter(gateOf({ limiter: { consume: () => figures as never } })) as GatePass).pendingHeaders?.fields;
    expect(told).toEqual({ "RateLimit-Policy": '"p";q=1', RateLimit: '"p";r=0;t=1' });
  });
});

describe("refunds", () => {
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
  ] as const)("%s after %o leaves %i", async (refundIf, outcome, expected) => {
    expect(await left({ refundIf }, outcome)).toBe(expected);
  });

  it("happen once, however often a request ends", async () => {
    expect(await left({ refundIf: () => true }, { status: 200, aborted: false }, 5)).toBe(10);
    const limiter = memoryRateLimiter(tokenBucket("10/d"), { clock: fakeClock() });
    const gate = gateOf({ limiter, key: () => "k", refundIf: () => true });
    const first = enter(gate) as GatePass;
    enter(gate);
    for (let i = 0; i < 5; i++) await first.refundOnFinish?.({ status: 200, aborted: false });
    expect((await limiter.peek("k")).remaining).toBe(9);
  });

  it("never happen for what the store did not count", async () => {
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

  it("that fail are reported, and break nothing", async () => {
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

  it("can be chosen later", async () => {
    expect(await left({ refundIf: async () => false }, { status: 200, aborted: false })).toBe(6);
    expect(await left({ refundIf: async () => true }, { status: 200, aborted: false })).toBe(10);
  });

  it("whose choice throws go to onError", async () => {
    const errors: unknown[] = [];
    const fail = () => {
      throw new Error("choice");
    };
    const gate = gateOf({ policy: "9/m", refundIf: fail, onError: (error) => void errors.push(error) });
    await (enter(gate) as GatePass).refundOnFinish?.({ status: 200, aborted: false });
    expect(errors).toMatchObject([{ message: "choice" }]);
  });
});

describe("a leaky bucket", () => {
  it("holds a request as long as it says, and denies what would take too long without keeping its place", async () => {
    const limiter = memoryRateLimiter(leakyBucket("1/s", { burst: 30 }), { clock: fakeClock() });
    const gate = gateOf({ limiter, key: () => "k" });
    for (let i = 0; i <= 10; i++) expect(enter(gate)).toMatchObject({ delayMs: i * 1000 });
    for (let i = 0; i < 3; i++) {
      const denied = (await enter(gate)) as GateReject<Args>;
      expect(denied.rejection.status).toBe(429);
      expect(denied.rejection.headers["Retry-After"]).toBe("1");
    }
  });

  it("that is one of several names itself when it would hold a request for too long", async () => {
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

  it("gives the place back before the answer is sent", async () => {
    const limiter = memoryRateLimiter(leakyBucket("1/m", { burst: 9 }), { clock: fakeClock() });
    const given: string[] = [];
    const slow = {
      consume: (key: string) => limiter.consume(key),
      async refund() {
        await Promise.resolve();
        given.push("back");
      },
    };
    const gate = gateOf({ limiter: slow, key: () => "k" });
    await enter(gate);
    await enter(gate);
    expect(given).toEqual(["back"]);
  });

  it("holds nobody in shadow mode", () => {
    const gate = gateOf({ policy: leakyBucket("1/s", { burst: 9 }), mode: "shadow" });
    for (let i = 0; i < 5; i++) expect(enter(gate)).toMatchObject({ delayMs: 0, pendingHeaders: undefined });
  });
});

describe("listeners", () => {
  it("that reject change nothing", async () => {
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

  it("that throw change nothing", () => {
    const fail = () => {
      throw new Error("listener");
    };
    expect(enter(gateOf({ policy: "2/m", onDecision: fail, onEvent: fail }))).toMatchObject({ pendingHeaders: {} });
  });

  it("hear once of a key that is new with almost every request", () => {
    const events: unknown[] = [];
    let next = 0;
    const gate = gateOf({ policy: "9/m", key: () => `k${next++}`, onEvent: (event) => void events.push(event) });
    for (let i = 0; i < 5000; i++) enter(gate);
    expect(events).toMatchObject([
      { type: "warning", message: expect.stringContaining("1000 of the last 1000 requests") },
    ]);
  });

  it("hear nothing of keys that come again, or of addresses", () => {
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

  it("hear once of policies that an older draft can't list", () => {
    const events: unknown[] = [];
    const policies = [fixedWindow("5/m", { name: "a" }), fixedWindow("5/h", { name: "b" })];
    const onEvent = (event: unknown) => void events.push(event);
    const gate = gateOf({ policies, headers: ["draft-6", "draft-7"], onEvent });
    for (let i = 0; i < 3; i++) {
      expect((enter(gate) as GatePass).pendingHeaders?.fields["RateLimit-Policy"]).toBe("5;w=3600");
    }
    expect(events).toMatchObject([{ type: "warning", message: expect.stringContaining("two policies of 5") }]);
  });

  it("hear once of a proxy that identity does not name", () => {
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

describe("tokens that can't be verified because keys are out of reach", () => {
  it("are reported once, and the users count by address", async () => {
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

  it("are not mixed up with tokens that are wrong", async () => {
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

describe("units", () => {
  it("are named in the body as in the fields", () => {
    const gate = gateOf({ policy: "2/m", key: () => "k", cost: 2, headers: { unit: "content-bytes" } });
    enter(gate);
    const { rejection } = enter(gate) as GateReject<Args>;
    expect(JSON.parse(rejection.body).detail).toBe("Limit of 2 content-bytes per 60 s reached.");
    expect(rejection.headers["RateLimit-Policy"]).toContain('qu="content-bytes"');
  });
});

describe("options", () => {
  it("that are changed later change nothing", () => {
    const options: Options = { policy: "2/m", cost: 1 };
    const gate = gateOf(options);
    options.cost = 2;
    options.mode = "shadow";
    expect([enter(gate), enter(gate), enter(gate)].map(stopped)).toEqual([false, false, true]);
  });

  it("give a partition key that can stand in a header, or an error", () => {
    const gate = gateOf({ policy: "2/m", key: () => "a\r\nb", headers: { partitionKey: (key) => key } });
    expect(() => enter(gate)).toThrow(/base64/);
  });
});

describe("errors", () => {
  it.each([undefined, null, "", 0, "route"])("that are none (%j) become one", (thrown) => {
    const outcome = gateOf({ policy: "2/m" }).handleError(thrown, [{}]);
    expect(outcome).toBeInstanceOf(SluiceError);
    expect((outcome as Error).cause).toBe(thrown);
  });

  it("of onError replace the one it was called with", () => {
    const fail = () => {
      throw new Error("second");
    };
    expect(gateOf({ policy: "2/m", onError: fail }).handleError(new Error("first"), [{}])).toMatchObject({
      message: "second",
    });
  });

  it("in shadow mode leave the request alone, and are reported", () => {
    const [errors, events]: unknown[][] = [[], []];
    const key = () => {
      throw new Error("key");
    };
    const gate = gateOf({ policy: "9/m", key, mode: "shadow", onEvent: (event) => void events?.push(event) });
    expect(gate.handleError(new Error("key"), [{}])).toBe("allow");
    expect(events).toMatchObject([{ type: "warning", message: expect.stringContaining("key") }]);
    const told = gateOf({ policy: "9/m", key, mode: "shadow", onError: (error) => void errors?.push(error) });
    expect(told.handleError(new Error("key"), [{}])).toBe("allow");
    expect(errors).toHaveLength(1);
  });

  it("say what a request without an address needs", () => {
    expect(() => enter(gateOf({ policy: "9/m" }), { peer: undefined })).toThrow(/unidentified/);
    const shared = gateOf({ policy: "1/m", identity: { unidentified: "share" } });
    expect(stopped(enter(shared, { peer: undefined }))).toBe(false);
    expect(stopped(enter(shared, { peer: undefined }))).toBe(true);
  });
});

describe("presets", () => {
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
  ] as const)("%s is believed where it runs, and nowhere else", (identity, header, arrive) => {
    const request = { headers: { [header]: "203.0.113.9" }, peer: "10.0.0.1" };
    expect(keyOf({ identity }, request)).toBe("ip:10.0.0.1");
    arrive();
    expect(keyOf({ identity }, request)).toBe("ip:203.0.113.9");
    for (const wrong of ["203.0.113.9, 1.2.3.4", "unknown", ""]) {
      expect(keyOf({ identity }, { headers: { [header]: wrong }, peer: "10.0.0.1" })).toBe("ip:10.0.0.1");
    }
  });

  it("cloudflare is believed when the peer is one of its own addresses", () => {
    const headers = { "cf-connecting-ip": "203.0.113.9" };
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "172.70.1.1" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "2606:4700::1" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity: "cloudflare" }, { headers, peer: "198.51.100.1" })).toBe("ip:198.51.100.1");
  });

  it.each([
    ["nginx", "x-real-ip"],
    ["fastly", "fastly-client-ip"],
    ["aws", "x-forwarded-for"],
  ] as const)("%s is believed from proxies that are named", (preset, header) => {
    const identity = { preset, trustedProxies: ["10.0.0.0/8"] };
    const headers = { [header]: "203.0.113.9" };
    expect(keyOf({ identity }, { headers, peer: "10.1.2.3" })).toBe("ip:203.0.113.9");
    expect(keyOf({ identity }, { headers, peer: "198.51.100.1" })).toBe("ip:198.51.100.1");
  });
});
