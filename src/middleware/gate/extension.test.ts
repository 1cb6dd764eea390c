/** Extensions of the gate without a server: the order of calls, and how results are merged. */
import { describe, expect, it } from "vitest";
import { EXTENSION, type ExtensionRequest, type GateExtension, type ResponseCapture } from "./extension.ts";
import { type Gate, openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";
import type { RequestReader } from "./request-reader.ts";

type Args = readonly [object];
type Enter = GateExtension<Args>["enter"];

const reader: RequestReader<Args> = {
  method: () => "POST",
  header: (_args, name) => (name === "x-own" ? "yes" : undefined),
  peer: () => "192.0.2.1",
  hasBody: () => false,
  path: () => "/a?b=1",
  extra: () => ({ country: "NZ" }),
  body: async (_args, maxBytes) => new Uint8Array(maxBytes),
  repeatable: true,
};
const set = { "X-Own": "yes" };
const capture = {} as ResponseCapture;

function gateOf(enter: Enter, options: RateLimitOptions<Args, unknown> = { policy: "1/h" }): Gate<Args> {
  return openGate({ ...options, [EXTENSION]: { enter } } as typeof options, reader);
}

describe("an extension", () => {
  it("reads a request on demand", async () => {
    const args: Args = [{}];
    let request: ExtensionRequest<Args> | undefined;
    gateOf((given) => void (request = given)).enter(args);
    const { method, path, extra, peer } = request as ExtensionRequest<Args>;
    expect([method, path, extra, peer]).toEqual(["POST", "/a?b=1", { country: "NZ" }, "192.0.2.1"]);
    expect(request?.args).toBe(args);
    expect([request?.header("x-own"), await request?.body(2)]).toEqual(["yes", new Uint8Array(2)]);
  });

  it("that returns nothing changes nothing, and adds no promise", () => {
    const gate = gateOf(() => undefined);
    expect(gate.enter([{}])).not.toHaveProperty("set");
    expect(gate.enter([{}])).toHaveProperty("rejection");
  });

  it("answers before the request is counted", async () => {
    const decisions: unknown[] = [];
    const answer = { status: 200, headers: {}, body: null };
    const options = { policy: "1/h", onDecision: (decided: unknown) => void decisions.push(decided) } as const;
    expect(gateOf(() => answer, options).enter([{}])).toEqual({ answer });
    expect(await gateOf(async () => answer, options).enter([{}])).toEqual({ answer });
    expect(decisions).toEqual([]);
  });

  it.each<[string, RateLimitOptions<Args, unknown>]>([
    ["without a promise", { policy: "1/h" }],
    ["with a promise of the key", { policy: "1/h", key: async () => "k" }],
  ])("adds to allowed and rejected requests, %s", async (_, options) => {
    const gate = gateOf(() => ({ set, capture }), options);
    const [allowed, rejected] = [await gate.enter([{}]), await gate.enter([{}])];
    expect(allowed).toMatchObject({ delayMs: 0, isHeld: false, set });
    expect(rejected).toMatchObject({ rejection: { status: 429 }, set });
    for (const result of [allowed, rejected]) expect(result?.capture).toBe(capture);
  });

  it("adds to requests that are not counted, and not to those that are skipped", async () => {
    const uncounted = gateOf(() => ({ set }), { limits: [{ limiter: () => undefined }] });
    expect(await uncounted.enter([{}])).toMatchObject({ pendingHeaders: undefined, delayMs: 0, set });
    const skipped = gateOf(() => ({ set }), { policy: "1/h", skip: async () => true });
    expect(await skipped.enter([{}])).toBeUndefined();
  });

  it("adds to requests whose limit could not be checked", async () => {
    const error = new Error("on purpose");
    const fail = () => {
      throw error;
    };
    const now = gateOf(() => ({ set, capture }), { policy: "1/h", key: fail });
    expect(now.enter([{}])).toEqual({ failure: { error }, set, capture });
    const later = gateOf(async () => ({ set }), { policy: "1/h", key: async () => fail() });
    expect(await later.enter([{}])).toEqual({ failure: { error }, set, capture: undefined });
  });

  it("that fails rejects the request, like key", async () => {
    const fail = () => {
      throw new Error("on purpose");
    };
    expect(() => gateOf(fail).enter([{}])).toThrow("on purpose");
    await expect(gateOf(async () => fail()).enter([{}])).rejects.toThrow("on purpose");
  });
});
