import { createLimiter, memoryRateLimiter, memoryStore, type RateLimiter, SluiceError, tokenBucket } from "sluice";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Gate, openGate } from "./gate.ts";
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

describe("a limiter created for every request (issue 13)", () => {
  const fresh = () => memoryRateLimiter(tokenBucket("5/m"));

  it("causes one warning, at the second request of a client", () => {
    const gate = gateOf({ limiter: fresh });
    enter(gate);
    expect(warnings).toEqual([]);
    enter(gate);
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
    for (let i = 0; i < 100; i++) enter(gate);
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
    expect(warnings[0]?.text).toContain("Create limiters once");
  });

  it("is not confused with plans, tenants, routes or a shared store", () => {
    const plans = [fresh(), fresh()];
    const tenants = new Map<string, ReturnType<typeof fresh>>();
    const store = memoryStore();
    let next = 0;
    const tenantOf = ({ peer = "" }: Fake) => {
      const limiter = tenants.get(peer) ?? fresh();
      tenants.set(peer, limiter);
      return limiter;
    };
    const limiters: Options["limiter"][] = [
      () => plans[next++ % 2] as (typeof plans)[0],
      tenantOf,
      // Wasteful, but the requests are limited.
      () => createLimiter({ policy: tokenBucket("5/m"), store }),
      // Limiters of tenants that are created when they are first used, and clients of two of them.
      ({ peer = "" }) => tenantOf({ peer: peer.slice(0, -1) }),
      // On a remote store, a new limiter uses the same buckets.
      () => ({ consume: async () => (await fresh().consume("k")) as never }),
    ];
    for (const limiter of limiters as NonNullable<Options["limiter"]>[]) {
      const gate = gateOf({ limiter });
      for (let i = 0; i < 2000; i++) enter(gate, { peer: `10.0.${(i >> 1) & 7}.${(i >> 4) & 127}` });
    }
    expect(warnings).toEqual([]);
  });
});

describe("a key without its id (issue 13)", () => {
  it.each([
    "user:undefined",
    "userundefined",
    "null",
    "tenant:7/user:null",
    "tenant:undefined:user:7",
    "NaN/7",
    "user:[object Object]",
    "[object Promise]",
  ])("causes one warning: %s", (key) => {
    const gate = gateOf({ policy: "9/m", key: () => key });
    enter(gate);
    expect(warnings).toEqual([]);
    enter(gate);
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
    for (let i = 0; i < 2000; i++) enter(gate);
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
    expect(warnings[0]?.text).toContain('2 of the last 2 keys contained "undefined", "null"');
    expect(warnings[0]?.text).toContain("Run rateLimit after authentication");
  });

  it.each(["user:nullable", "user:mcnull", "user:NaNcy", "user:undefined7", "user:Nan", "user:[object]"])(
    "causes no warning for a whole name: %s",
    (key) => {
      const gate = gateOf({ policy: "9/m", key: () => key });
      for (let i = 0; i < 50; i++) enter(gate);
      expect(warnings).toEqual([]);
    },
  );

  it("causes a warning if it starts after 10 000 requests", () => {
    let next = 0;
    const gate = gateOf({ policy: "9/m", key: () => (next++ < 10_000 ? "user:1" : "user:undefined") });
    for (let i = 0; i < 10_000; i++) enter(gate);
    expect(warnings).toEqual([]);
    // One of 17 keys is searched.
    for (let i = 0; i < 2 * 17; i++) enter(gate);
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
  });

  it("causes a warning if two of the last 1000 keys lack it", async () => {
    let next = 0;
    const gate = gateOf({ policy: "9/m", key: async () => (next++ % 499 === 0 ? "user:undefined" : "user:1") });
    for (let i = 0; i < 1000; i++) await enter(gate);
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
    expect(warnings[0]?.text).toContain("2 of the last 500 keys");
  });

  it("causes no warning if it is one of 1000: the name of a user", () => {
    let next = 0;
    const gate = gateOf({ policy: "9/m", key: () => (next++ === 500 ? "user:null" : "user:1") });
    for (let i = 0; i < 5000; i++) enter(gate);
    expect(warnings).toEqual([]);
  });
});

describe("one middleware mounted twice (issue 13)", () => {
  it("causes one warning, and none for consecutive requests", () => {
    const gate = gateOf({ policy: "99/m" });
    for (let i = 0; i < 5; i++) enter(gate);
    expect(warnings).toEqual([]);
    for (let i = 0; i < 5; i++) {
      const args: Args = [{}];
      gate.enter(args);
      gate.enter(args);
    }
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
    expect(warnings[0]?.text).toContain("ran twice for a request");
  });
});

describe("options of something else (issue 13)", () => {
  it.each<[string, unknown, string]>([
    [
      "a store as limiter",
      { limiter: memoryStore() },
      "limiter must be a limiter, but received a store. Pass createLimiter({ policy, store }).",
    ],
    ["headers: true", { policy: "1/s", headers: true }, 'headers must be "draft-8", "draft-7"'],
    [
      "headers: 8",
      { policy: "1/s", headers: 8 },
      '"legacy", a list of these, { mode } with further options, or false for no fields, but received 8',
    ],
    [
      "message",
      { policy: "1/s", message: "slow down" },
      '"message" is not an option of rateLimit. Use onLimited instead',
    ],
    [
      "statusCode",
      { policy: "1/s", statusCode: 420 },
      '"statusCode" is not an option of rateLimit. Use onLimited instead',
    ],
    ["points", { points: 10, duration: 1 }, '"points" is not an option of rateLimit. Use policy instead'],
    [
      "onLimited of express-rate-limit",
      { policy: "1/s", onLimited: (_request: unknown, response: { send(): void }) => response.send() },
      "onLimited is called with one object, not with (request, response).",
    ],
    ["a function as policy", { policy: () => "1/s" }, "To choose a limit for each request, pass a function as limiter"],
    ["preflight: skip", { policy: "1/s", preflight: "skip" }, '"50/s burst 500", or "charge", but received "skip"'],
    ["preflight: false", { policy: "1/s", preflight: false }, 'preflight must be a policy such as "50/s burst 500"'],
    ["preflight: {}", { policy: "1/s", preflight: {} }, "capacity"],
  ])("throw an error with the fix: %s", (_what, options, message) => {
    expect(() => gateOf(options as Options)).toThrow(message);
    expect(() => gateOf(options as Options)).toThrow(SluiceError);
  });

  it("throw an error that shows how to wrap a limiter that rejects with its denials", async () => {
    const denial = Object.assign(Object.create({ constructor: class RateLimiterRes {} }), { msBeforeNext: 500 });
    const errors: unknown[] = [];
    const gate = gateOf({
      limiter: { consume: () => Promise.reject(denial) },
      onError: (error) => void errors.push(error),
    });
    const thrown = await Promise.resolve(enter(gate)).catch((error: unknown) => error);
    const outcome = gate.handleError(thrown, [{}]);
    expect(outcome).toMatchObject({ code: "invalid-limiter", cause: denial });
    expect((outcome as Error).message).toContain("rate-limiter-flexible does. Wrap it to resolve with");
    expect(errors).toEqual([outcome]);
  });

  it("are accepted if wrapped as the error recommends", async () => {
    let left = 1;
    const limiter = {
      consume: (_key: string, _cost?: number) =>
        left-- > 0 ? Promise.resolve({ remainingPoints: 0 }) : Promise.reject({ msBeforeNext: 1500 }),
    };
    const gate = gateOf({
      limiter: {
        consume: (key, cost) =>
          limiter.consume(key, cost).then(
            () => ({ allowed: true }),
            ({ msBeforeNext }) => ({ allowed: false, retryAfterMs: msBeforeNext }),
          ) as never,
      },
    });
    expect(await enter(gate)).toMatchObject({ pendingHeaders: undefined });
    expect(await enter(gate)).toMatchObject({ rejection: { status: 429, headers: { "Retry-After": "2" } } });
  });
});

describe("an unnamed policy on two routes and one store", () => {
  const shared = (policy: Parameters<typeof createLimiter>[0]["policy"], count = 2) => {
    const store = memoryStore();
    return Array.from({ length: count }, () => createLimiter({ policy, store }));
  };
  const visit = (gates: readonly Gate<Args>[], peer = "192.0.2.1") => {
    for (const gate of gates) enter(gate, { peer });
  };

  it("causes one warning for each policy", () => {
    const gates = shared("9/m").map((limiter) => gateOf({ limiter }));
    visit(gates);
    expect(warnings).toEqual([]);
    for (let i = 0; i < 50; i++) visit(gates);
    expect(codes()).toEqual(["SLUICE_MISUSE"]);
    expect(warnings[0]?.text).toContain('Two limiters with the policy "9/m" on one store share their buckets');
  });

  it("causes a warning in limits, and one event instead if onEvent is set", () => {
    const events: unknown[] = [];
    const onEvent = (event: unknown): void => void events.push(event);
    const gates = shared("9/m").map((limiter) => gateOf({ limits: [{ limiter }], onEvent }));
    for (let i = 0; i < 50; i++) visit(gates);
    expect(warnings).toEqual([]);
    expect(events).toMatchObject([{ type: "warning", message: expect.stringContaining("Give each policy a name") }]);
  });

  it("is not confused with names, prefixes, one limiter, other keys, other stores or a limiter per request", () => {
    const [one] = shared("9/m", 1);
    const limiters = [
      ...shared(tokenBucket("9/m", { name: "api" })),
      ...shared(tokenBucket("9/m", { prefix: "api" })),
      one,
      one,
      ...shared("9/m", 1),
      ...shared("9/m", 1),
    ] as RateLimiter[];
    const gates = limiters.map((limiter) => gateOf({ limiter }));
    for (let i = 0; i < 50; i++) visit(gates);
    const byKind = shared("9/m").map((limiter, i) => gateOf({ limiter, key: () => `${i === 0 ? "ip" : "user"}:1` }));
    for (let i = 0; i < 50; i++) visit(byKind);
    // As on Workers, where a binding is only known in a request.
    for (const limiter of shared("9/m", 50)) visit([gateOf({ limiter })]);
    expect(warnings).toEqual([]);
  });
});
