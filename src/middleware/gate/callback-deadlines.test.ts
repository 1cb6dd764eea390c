/** Deadlines of callbacks: a promise that never settles fails the request in time (issue 30). */
import { createLimiter, SluiceError } from "sluice";
import { abuse } from "sluice/abuse";
import { loadRules } from "sluice/rules";
import { afterEach, describe, expect, it, vi } from "vitest";
import { openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";
import type { RequestReader } from "./request-reader.ts";

type Args = readonly [object];
type Options = RateLimitOptions<Args, void>;

const reader: RequestReader<Args> = {
  method: () => "GET",
  header: () => undefined,
  peer: () => "192.0.2.1",
  hasBody: () => false,
  path: () => "/",
  body: async () => undefined,
  repeatable: true,
};
const gateOf = (options: Options) => openGate({ callbackDeadlineMs: 20, ...options }, reader);
const hang = (): Promise<never> => new Promise(() => {});
const limiter = () => createLimiter({ policy: "5/m" });
const rules = (rule: object = {}) =>
  loadRules(
    { rules: [{ name: "all", match: "/*", limits: { ip: "100/m", tenant: "5/m" }, ...rule }], fallback: "unlimited" },
    { facts: ["tenant"] },
  );

afterEach(() => void vi.restoreAllMocks());

describe("a callback that never settles", () => {
  it.each<[string, () => Options]>([
    ["key", () => ({ policy: "5/m", key: hang })],
    ["cost", () => ({ policy: "5/m", cost: hang })],
    ["skip", () => ({ policy: "5/m", skip: hang })],
    ["limiter", () => ({ limiter: hang })],
    ["hold.estimate", () => ({ policy: "5/m", hold: { estimate: hang } })],
    ["limits[0].limiter", () => ({ limits: [{ limiter: hang }] })],
    ["limits[1].key", () => ({ limits: [{ limiter: limiter() }, { limiter: limiter(), key: hang }] })],
    ["limits[0].cost", () => ({ limits: [{ limiter: limiter(), cost: hang }] })],
    ["facts.tenant", () => ({ rules: rules(), facts: { tenant: hang } })],
    ["identity.apiKey.verify", () => ({ policy: "5/m", identity: { apiKey: { header: "x-key", verify: hang } } })],
    ["abuse.deny", () => ({ policy: "5/m", abuse: abuse({ deny: [hang] }) })],
    ["abuse.allow", () => ({ policy: "5/m", abuse: abuse({ allow: [hang] }) })],
  ])("fails the request: %s", async (option, create) => {
    const gate = openGate({ callbackDeadlineMs: "20ms", ...create() }, { ...reader, header: () => "k1" });
    const error = await Promise.resolve(gate.enter([{}])).then(undefined, (error: unknown) => error);
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({ code: "callback-timeout", option, isCallerError: false });
    expect((error as Error).message).toMatch(
      /^\S+ did not settle within 20 ms\. Give what it awaits a timeout, or raise callbackDeadlineMs\./,
    );
  });

  it("is an absent signal, which never denies, and is reported", async () => {
    const onError = vi.fn();
    const gate = gateOf({
      rules: rules({ when: { bot: "likely" } }),
      facts: { tenant: () => "acme" },
      abuse: abuse({ signals: [hang, () => ({ bot: "likely" })] }),
      onError,
    });
    expect(await gate.enter([{}])).toMatchObject({ delayMs: 0 });
    expect(onError.mock.calls.map(([error]) => error)).toEqual([
      expect.objectContaining({ code: "callback-timeout", option: "abuse.signals" }),
    ]);
  });

  it("has 5 s by default", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "setImmediate", "performance"] });
    try {
      const failed = vi.fn();
      Promise.resolve(openGate<Args, void>({ policy: "5/m", key: hang }, reader).enter([{}])).then(undefined, failed);
      await vi.advanceTimersByTimeAsync(4900);
      expect(failed).not.toHaveBeenCalled();
      await vi.advanceTimersByTimeAsync(200);
      expect(failed).toHaveBeenCalledOnce();
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("other callbacks", () => {
  it("may be methods of a class, which keep their instance", async () => {
    class Verifier {
      readonly #known = ["k1"];
      header = "x-key";
      verify(key: string): boolean {
        return this.#known.includes(key);
      }
    }
    const decided: string[] = [];
    const gate = openGate<Args, void>(
      {
        policy: "5/m",
        identity: { apiKey: new Verifier() },
        onDecision: ({ key }) => void decided.push(key.split(":")[0] as string),
      },
      { ...reader, header: (_args, name) => (name === "x-key" ? "k1" : undefined) },
    );
    await gate.enter([{}]);
    expect(decided).toEqual(["key"]);
  });

  it("set no timer if they return a value or a promise that is settled", async () => {
    const timeout = vi.spyOn(globalThis, "setTimeout");
    const options = { policy: "500/m", skip: () => false, cost: async () => 1 } as const;
    for (const key of [() => "k", async () => "k", () => Promise.resolve("k")]) {
      await gateOf({ ...options, key }).enter([{}]);
    }
    await expect(gateOf({ ...options, key: () => Promise.reject(new Error("no")) }).enter([{}])).rejects.toThrow("no");
    expect(timeout).not.toHaveBeenCalled();
  });

  it("may take their time until the deadline, and leave no timer behind", async () => {
    const cleared = vi.spyOn(globalThis, "clearTimeout");
    let resolve = (_key: string): void => {};
    const key = () => new Promise<string>((done) => (resolve = done));
    const entered = gateOf({ policy: "500/m", key, callbackDeadlineMs: "1m" }).enter([{}]);
    await Promise.resolve();
    resolve("k");
    expect(await entered).toBeDefined();
    expect(cleared).toHaveBeenCalledOnce();
  });

  it.each([0, -1, 1.5, "5 parsecs", "1h", true])("refuse the deadline %s", (callbackDeadlineMs) => {
    expect(() => gateOf({ policy: "5/m", callbackDeadlineMs } as never)).toThrow(/callbackDeadlineMs/);
  });
});
