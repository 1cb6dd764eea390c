/** The option `limits` without a server. */
import {
  combine,
  createLimiter,
  fixedWindow,
  leakyBucket,
  memoryRateLimiter,
  memoryStore,
  type RateLimiter,
  SluiceError,
  tokenBucket,
} from "sluice";
import { partitionKey } from "sluice/http";
import { fakeClock } from "sluice/testing";
import { describe, expect, it, vi } from "vitest";
import { decisionOf } from "./decisions.ts";
import { type Gate, type GatePass, type GateReject, openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";
import type { RequestReader } from "./request-reader.ts";

interface Fake {
  user?: string;
  headers?: Record<string, string>;
}
type Args = readonly [Fake];
type Options = RateLimitOptions<Args, void>;

const reader: RequestReader<Args> = {
  method: () => "GET",
  header: ([request], name) => request.headers?.[name],
  peer: () => "192.0.2.1",
  hasBody: () => false,
  path: () => "/",
  body: async () => undefined,
  repeatable: true,
};

const gateOf = (options: Options): Gate<Args> => openGate(options, reader);
const enter = (gate: Gate<Args>, request: Fake = {}) => gate.enter([request]);
const userKey = ({ user }: Fake) => `user:${user}`;

/** Two limiters on one store with a fixed clock. */
function limiters() {
  const store = memoryStore({ clock: fakeClock() });
  return {
    byAddress: createLimiter({ policy: tokenBucket("9/d", { name: "address" }), store }),
    byUser: createLimiter({ policy: tokenBucket("4/d", { name: "user" }), store }),
  };
}

describe("limits", () => {
  it("are charged without a promise if every store is synchronous", async () => {
    const { byAddress, byUser } = limiters();
    const gate = gateOf({ limits: [{ limiter: byAddress }, { limiter: byUser, key: userKey, cost: 3 }] });
    expect(enter(gate, { user: "ada" })).toMatchObject({
      pendingHeaders: {
        fields: {
          "RateLimit-Policy": '"address";q=9;w=86400, "user";q=4;w=86400',
          RateLimit: '"address";r=8;t=9600, "user";r=1;t=21600',
        },
        exhausted: false,
      },
    });
    const { rejection, limited } = enter(gate, { user: "ada" }) as GateReject<Args>;
    expect(JSON.parse(rejection.body)).toMatchObject({ "violated-policies": ["user"] });
    expect(limited).toMatchObject({ key: "user:ada", decision: { policy: "user", allowed: false } });
    expect((await byAddress.peek("ip:192.0.2.1")).remaining).toBe(8);
  });

  it.each<[string, (limiter: RateLimiter) => NonNullable<Options["limits"]>[number]]>([
    ["limiter", (limiter) => ({ limiter: async () => limiter })],
    ["key", (limiter) => ({ limiter, key: async () => "k" })],
    ["cost", (limiter) => ({ limiter, cost: async () => 1 })],
  ])("are awaited if a %s is a promise", async (_what, limitOf) => {
    const { byAddress, byUser } = limiters();
    const result = enter(gateOf({ limits: [limitOf(byAddress), { limiter: byUser }] }));
    expect(result).toHaveProperty("then");
    expect(await result).toMatchObject({ pendingHeaders: { exhausted: false } });
  });

  it("use the top-level key and cost as defaults", async () => {
    const { byAddress, byUser } = limiters();
    const key = vi.fn(() => "shared");
    const gate = gateOf({ limits: [{ limiter: byAddress }, { limiter: byUser, cost: 1 }], key, cost: 2 });
    enter(gate);
    expect(key).toHaveBeenCalledTimes(1);
    expect((await byAddress.peek("shared")).remaining).toBe(7);
    expect((await byUser.peek("shared")).remaining).toBe(3);
  });

  it("identify the client once per request", async () => {
    const { byAddress, byUser } = limiters();
    const verify = vi.fn(() => "acme");
    const gate = gateOf({ limits: [{ limiter: byAddress }, { limiter: byUser }], identity: { apiKey: { verify } } });
    await enter(gate, { headers: { "x-api-key": "secret" } });
    expect(verify).toHaveBeenCalledTimes(1);
  });

  it("need no identity on a runtime without sockets if every limit has a key", () => {
    const { byAddress, byUser } = limiters();
    const peerless = { ...reader, peer: () => undefined, peerless: true };
    const keyed = { limiter: byUser, key: userKey };
    expect(() => openGate<Args, void>({ limits: [{ limiter: byAddress }, keyed] }, peerless)).toThrow(/identity/);
    const gate = openGate<Args, void>({ limits: [keyed] }, peerless);
    expect(enter(gate, { user: "ada" })).toMatchObject({ pendingHeaders: {} });
  });

  it("count nothing if no limiter function returns a limiter", () => {
    const onDecision = vi.fn();
    const key = vi.fn(() => "k");
    const request = {};
    expect(enter(gateOf({ limits: [{ limiter: () => undefined, key }], onDecision }), request)).toBeUndefined();
    expect([onDecision.mock.calls, key.mock.calls, decisionOf(request)]).toEqual([[], [], undefined]);
  });

  it("write one partition key per policy, from the key of its charge", () => {
    const { byAddress, byUser } = limiters();
    const hash = partitionKey("secret");
    const gate = gateOf({
      limits: [
        { limiter: byAddress },
        { limiter: combine([byUser, memoryRateLimiter(fixedWindow("5/h", { name: "hourly" }))]), key: userKey },
      ],
      headers: { partitionKey: hash },
    });
    const fields = (enter(gate, { user: "ada" }) as GatePass).pendingHeaders?.fields;
    const expected = [hash("ip:192.0.2.1"), hash("user:ada"), hash("user:ada")];
    for (const name of ["RateLimit", "RateLimit-Policy"]) {
      expect([...(fields?.[name] ?? "").matchAll(/pk=:([^:]+):/g)].map(([, pk]) => pk)).toEqual(expected);
    }
  });

  it("write the partition key of the limiting charge if only that is reported", () => {
    const { byAddress, byUser } = limiters();
    const hash = partitionKey("secret");
    const limits = [{ limiter: byAddress }, { limiter: byUser, key: userKey }];
    const gate = gateOf({ limits, headers: { partitionKey: hash, report: "closest" } });
    expect((enter(gate, { user: "ada" }) as GatePass).pendingHeaders?.fields).toMatchObject({
      RateLimit: `"user";r=3;t=21600;pk=:${hash("user:ada")}:`,
    });
  });

  it("charge one limiter with two keys", async () => {
    const { byUser } = limiters();
    const limits = [
      { limiter: byUser, key: () => "a" },
      { limiter: byUser, key: () => "b", cost: 2 },
    ];
    const fields = (enter(gateOf({ limits })) as GatePass).pendingHeaders?.fields;
    expect(fields?.RateLimit).toBe('"user";r=3;t=21600, "user";r=2;t=21600');
    expect([(await byUser.peek("a")).remaining, (await byUser.peek("b")).remaining]).toEqual([3, 2]);
  });

  it("reject nothing in shadow mode, but count", async () => {
    const { byAddress, byUser } = limiters();
    const denied: string[] = [];
    const gate = gateOf({
      limits: [{ limiter: byAddress }, { limiter: byUser, key: userKey, cost: 4 }],
      mode: "shadow",
      onDecision: ({ key, decision }) => void (decision.allowed || denied.push(key)),
    });
    for (let i = 0; i < 2; i++) {
      expect(enter(gate, { user: "ada" })).toMatchObject({ pendingHeaders: undefined, delayMs: 0 });
    }
    expect(denied).toEqual(["user:ada"]);
    expect((await byAddress.peek("ip:192.0.2.1")).remaining).toBe(8);
  });

  it("refund every charge with its own cost, once", async () => {
    const { byAddress, byUser } = limiters();
    const limits = [{ limiter: byAddress }, { limiter: byUser, key: userKey, cost: 4 }];
    const pass = enter(gateOf({ limits, refundIf: "failed" }), { user: "ada" }) as GatePass;
    for (let i = 0; i < 2; i++) await pass.onFinish?.({ status: 500, aborted: false });
    expect([(await byAddress.peek("ip:192.0.2.1")).remaining, (await byUser.peek("user:ada")).remaining]).toEqual([
      9, 4,
    ]);
  });

  it("refund every charge of a request that would be delayed for too long", async () => {
    const store = memoryStore({ clock: fakeClock() });
    const queue = createLimiter({ policy: leakyBucket("1/m", { burst: 9, name: "queue" }), store });
    const daily = createLimiter({ policy: fixedWindow("50/d", { name: "daily" }), store });
    const gate = gateOf({
      limits: [
        { limiter: daily, cost: 5 },
        { limiter: queue, key: () => "queue" },
      ],
    });
    expect(enter(gate)).toMatchObject({ delayMs: 0 });
    for (let i = 0; i < 3; i++) {
      const { rejection, limited } = (await enter(gate)) as GateReject<Args>;
      expect(JSON.parse(rejection.body)["violated-policies"]).toEqual(["queue"]);
      expect(rejection.headers.RateLimit).toMatch(/^"daily";r=45;t=\d+, "queue";r=8;t=\d+$/);
      expect(limited?.key).toBe("queue");
    }
  });

  it("refund the charges that the store has counted if another was decided without it", async () => {
    const { byUser } = limiters();
    const fail = () => Promise.reject(new Error("down"));
    const store = { consistency: "exact" as const, apply: fail, reset: fail, inspect: fail, dispose: async () => {} };
    const remote = createLimiter({ policy: "5/d", store, onStoreError: "open" });
    vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const gate = gateOf({ limits: [{ limiter: remote }, { limiter: byUser, key: userKey }], refundIf: () => true });
    const pass = (await enter(gate, { user: "ada" })) as GatePass;
    expect((await byUser.peek("user:ada")).remaining).toBe(3);
    await pass.onFinish?.({ status: 200, aborted: false });
    expect((await byUser.peek("user:ada")).remaining).toBe(4);
    vi.restoreAllMocks();
  });

  it("warn about a limiter function that creates a limiter for every request", () => {
    const events: unknown[] = [];
    const limits = [{ limiter: () => memoryRateLimiter("5/m") }];
    const gate = gateOf({ limits, onEvent: (event) => void events.push(event) });
    for (let i = 0; i < 100; i++) enter(gate);
    expect(events).toMatchObject([{ message: expect.stringContaining("Create limiters once") }]);
  });

  it("warn about keys without their id", () => {
    const events: unknown[] = [];
    const { byUser } = limiters();
    const gate = gateOf({ limits: [{ limiter: byUser, key: userKey }], onEvent: (event) => void events.push(event) });
    for (let i = 0; i < 100; i++) enter(gate);
    expect(events).toMatchObject([{ message: expect.stringContaining('contained "undefined"') }]);
  });
});

describe("invalid limits", () => {
  const thirdParty = { consume: async () => ({ allowed: true }) };
  const limiter = memoryRateLimiter("5/m");

  it.each<[string, unknown, string, string]>([
    ["an object", { limits: {} }, "limits", "limits must be a list of limits, such as [{ limiter, key }]"],
    ["an empty list", { limits: [] }, "limits", "limits must be a list of limits"],
    ["a bare limiter", { limits: [limiter] }, "limits[0]", "Write { limiter } around it."],
    ["null", { limits: [null] }, "limits[0]", "Expected an object for limits[0]"],
    [
      "an unknown member",
      { limits: [{ limiter, keys: [] }] },
      "keys",
      '"keys" is not an option of limits[0]. Use limiter, key, cost.',
    ],
    ["no limiter", { limits: [{}] }, "limits[0].limiter", "must be an object with consume(key, cost)"],
    ["a store", { limits: [{ limiter: memoryStore() }] }, "limits[0].limiter", "but received a store"],
    [
      "a third-party limiter",
      { limits: [{ limiter }, { limiter: thirdParty }] },
      "limits[1].limiter",
      "can't be charged all or nothing",
    ],
    ["a key that is a string", { limits: [{ limiter, key: "k" }] }, "limits[0].key", "must be a function"],
    ["a negative cost", { limits: [{ limiter, cost: -1 }] }, "cost", "a whole number"],
    ["limits beside limiter", { limiter, limits: [{ limiter }] }, "rateLimit", "but received limiter and limits."],
    [
      "more than 16 policies",
      { limits: Array.from({ length: 17 }, (_, i) => ({ limiter, key: () => `${i}` })) },
      "limits",
      "limits must be a list of at most 16 policies, but received 17.",
    ],
  ])("are rejected when rateLimit is called: %s", (_what, options, option, message) => {
    const error = (() => {
      try {
        return gateOf(options as Options);
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({ option, message: expect.stringContaining(message) });
  });

  it.each<[string, NonNullable<Options["limits"]>[number], string]>([
    ["a third-party limiter from a function", { limiter: () => thirdParty as never }, "invalid-limiter"],
    ["an empty key", { limiter, key: () => "" }, "invalid-key"],
    ["a fraction as cost", { limiter, cost: () => 0.5 }, "invalid-cost"],
  ])("are an error of the request: %s", (_what, limit, code) => {
    expect(() => enter(gateOf({ limits: [limit] }))).toThrow(expect.objectContaining({ code }));
  });
});
