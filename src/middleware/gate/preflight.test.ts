/** CORS preflights without a server: how they are detected, and their budget (issue 13). */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Gate, type GateReject, openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";
import { hasNodeBody } from "./preflight.ts";
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
  method: ([request]) => request.method ?? "OPTIONS",
  header: ([request], name) => ({ ...PREFLIGHT, ...request.headers })[name],
  peer: ([request]) => ("peer" in request ? request.peer : "192.0.2.1"),
  hasBody: ([request]) => request.body === true,
  path: () => "/",
  body: async () => undefined,
};
const PREFLIGHT: Record<string, string> = {
  origin: "https://elsewhere.example",
  "access-control-request-method": "POST",
};

const gateOf = (options: Options, more: Partial<RequestReader<Args>> = {}): Gate<Args> =>
  openGate(options, { ...reader, ...more });
const enter = (gate: Gate<Args>, request: Fake = {}) => gate.enter([{ ...request }]);
/** How many of `count` preflights pass. */
const passing = (gate: Gate<Args>, count: number, request?: Fake) =>
  Array.from({ length: count }, () => enter(gate, request)).filter((result) => result === undefined).length;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

describe("preflights without an IP address", () => {
  it("pass if users are identified by credentials, and share one budget", () => {
    const gate = gateOf({ policy: "1/h", identity: { apiKey: { verify: () => true } } as never });
    expect(passing(gate, 600, { peer: undefined })).toBe(500);
  });

  it("are warned about once if their budget is exhausted and key is set", () => {
    const messages: string[] = [];
    const onEvent = (event: { message?: string }) => void messages.push(event.message ?? "");
    const gate = gateOf({ policy: "1/h", key: () => "k", onEvent: onEvent as never });
    expect(passing(gate, 600, { peer: undefined })).toBe(500);
    expect(messages).toEqual([expect.stringContaining("without a socket, all preflights share one budget")]);
  });
});

describe("the preflight budget", () => {
  it("admits a burst of 500 per IP address, then 50 per second", () => {
    const gate = gateOf({ policy: "1/h" });
    expect(passing(gate, 600)).toBe(500);
    expect(passing(gate, 600, { peer: "192.0.2.2" })).toBe(500);
    vi.advanceTimersByTime(1000);
    expect(passing(gate, 600)).toBe(50);
  });

  it("can be a rate or a policy, and is named preflight", () => {
    expect(passing(gateOf({ policy: "1/h", preflight: "3/m" }), 9)).toBe(3);
    const policy = { algorithm: "fixed-window", limit: 4, windowMs: "1h", name: "mine" } as const;
    const gate = gateOf({ policy: "1/h", preflight: policy });
    expect(passing(gate, 9)).toBe(4);
    const { rejection, limited } = enter(gate) as GateReject<Args>;
    expect([rejection.status, limited]).toEqual([429, undefined]);
    expect(JSON.parse(rejection.body)).toMatchObject({ "violated-policies": ["preflight"] });
  });

  it("belongs to one middleware", () => {
    for (let i = 0; i < 2; i++) expect(passing(gateOf({ policy: "1/h", preflight: "1/h" }), 3)).toBe(1);
  });

  it("is kept for at most 10 000 IP addresses", () => {
    const gate = gateOf({ policy: "1/h", preflight: "1/h" });
    const addresses = Array.from({ length: 30_000 }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    for (const peer of addresses) enter(gate, { peer });
    const known = addresses.filter((peer) => enter(gate, { peer }) !== undefined).length;
    expect(known).toBeLessThanOrEqual(10_000);
  });

  it("is charged to the IP address that identity resolves, without verifying credentials", () => {
    const verify = vi.fn();
    const identity = { trustedProxies: ["10.0.0.1"], apiKey: { verify } };
    const gate = gateOf({ policy: "1/h", preflight: "1/h", identity });
    const from = (address: string) => ({
      peer: "10.0.0.1",
      headers: { "x-forwarded-for": address, "x-api-key": "secret" },
    });
    expect([passing(gate, 2, from("203.0.113.1")), passing(gate, 2, from("203.0.113.2"))]).toEqual([1, 1]);
    expect(verify).not.toHaveBeenCalled();
  });

  it("is charged to the peer if key is set, and shared if there is no peer", () => {
    const options: Options = { policy: "1/h", preflight: "1/h", key: () => "k" };
    const gate = gateOf(options);
    expect([passing(gate, 2), passing(gate, 2, { peer: "192.0.2.2" })]).toEqual([1, 1]);
    expect(passing(gateOf(options, { peerless: true }), 2, { peer: undefined })).toBe(1);
  });

  it("warns once if key is set and the clients of a proxy have exhausted it", () => {
    const events: unknown[] = [];
    const gate = gateOf({
      policy: "1/h",
      preflight: "1/h",
      key: () => "k",
      onEvent: (event) => void events.push(event),
    });
    const request = { peer: "10.0.0.1", headers: { "x-forwarded-for": "203.0.113.1" } };
    enter(gate, request);
    expect(events).toEqual([]);
    for (let i = 0; i < 3; i++) enter(gate, request);
    expect(events).toMatchObject([{ message: expect.stringContaining("through the proxy 10.0.0.1 share one budget") }]);
  });

  it("rejects nothing in shadow mode, but calls onDecision", () => {
    const denied: string[] = [];
    const gate = gateOf({
      policy: "1/h",
      preflight: "1/h",
      mode: "shadow",
      onDecision: ({ key, decision }) => void denied.push(`${key} ${decision.policy} ${decision.allowed}`),
    });
    expect(passing(gate, 3)).toBe(3);
    expect(denied).toEqual(["ip:192.0.2.1 preflight false", "ip:192.0.2.1 preflight false"]);
  });
});

describe("an OPTIONS request", () => {
  const isPreflight = (request: Fake) => enter(gateOf({ policy: "1/h" }), request) === undefined;

  it.each(["GET", "POST", "PATCH", "DELETE", "VERSION-CONTROL", "BASELINE-CONTROL"])(
    "is a preflight for the method %s",
    (method) => {
      expect(isPreflight({ headers: { "access-control-request-method": method } })).toBe(true);
    },
  );

  it.each<[string, Fake]>([
    ["a body", { body: true }],
    ["another method", { method: "POST" }],
    ["no origin", { headers: { origin: "" } }],
    ...["", "x", "GE", "post", "Post", "CONNECT", "TRACE", "GET ", "GET,POST", "A".repeat(21), "\u0130GET"].map(
      (method): [string, Fake] => [`method ${method}`, { headers: { "access-control-request-method": method } }],
    ),
  ])("is not a preflight with %s", (_what, request) => {
    expect(isPreflight(request)).toBe(false);
  });

  it.each([
    [{}, false],
    [{ "content-length": "0" }, false],
    [{ "content-length": "1" }, true],
    [{ "content-length": "x" }, true],
    [{ "transfer-encoding": "chunked" }, true],
    [{ "transfer-encoding": "chunked", "content-length": "0" }, true],
  ])("has a body or not by its headers: %o, %s", (headers, expected) => {
    expect(hasNodeBody({ headers })).toBe(expected);
  });

  it.each([
    [true, false],
    [false, true],
    [undefined, true],
  ])("has a body or not by endAfterHeaders on HTTP/2: %s, %s", (endAfterHeaders, expected) => {
    expect(hasNodeBody({ headers: {}, stream: { endAfterHeaders } as never })).toBe(expected);
  });
});
