import { describe, expect, it } from "vitest";
import { decisionOf } from "./decisions.ts";
import { type Gate, openGate } from "./gate.ts";
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

describe("the decision of a request", () => {
  it("is recorded if the request passes, and not if it is rejected", () => {
    const gate = gateOf({ policy: "1/d", key: () => "k" });
    const [first, second] = [{}, {}];
    enter(gate, first);
    enter(gate, second);
    expect(decisionOf(first)).toMatchObject({ allowed: true, remaining: 0 });
    expect(decisionOf(second)).toBeUndefined();
  });

  it("is that of the last middleware", () => {
    const request = {};
    enter(gateOf({ policy: { capacity: 1, tokensPerSecond: 1, name: "tight" } }), request);
    enter(gateOf({ policy: { capacity: 9, tokensPerSecond: 1, name: "loose" } }), request);
    expect(decisionOf(request)).toMatchObject({ policy: "loose" });
  });

  it("may be a denied one in shadow mode", () => {
    const gate = gateOf({ policy: "1/d", key: () => "k", mode: "shadow" });
    const request = {};
    enter(gate);
    enter(gate, request);
    expect(decisionOf(request)).toMatchObject({ allowed: false });
  });

  it("adds nothing to the request", () => {
    const request = Object.freeze({});
    enter(gateOf({ policy: "1/d" }), request);
    expect(Reflect.ownKeys(request)).toEqual([]);
    expect(decisionOf(request)).toMatchObject({ allowed: true });
  });
});
