/** What the ws-kit middleware does with rejected messages, and what it warns about. Real routers are in integration/ws. */
import { memoryRateLimiter } from "sluice";
import { fakeClock } from "sluice/testing";
import { createGuard } from "sluice/ws";
import {
  type ExceededAction,
  type LimitExceeded,
  rateLimit,
  type WsKitContext,
  type WsKitOptions,
} from "sluice/ws-kit";
import { beforeEach, describe, expect, it, vi } from "vitest";

/** A connection with a middleware that limits it to two messages, and what happens on it. */
function connected(options: Partial<WsKitOptions>, clock = fakeClock()) {
  const seen = { handled: 0, errors: [] as string[], closes: [] as unknown[], reported: [] as LimitExceeded[] };
  const limit = rateLimit({
    limiter: memoryRateLimiter("2/s burst 2", { clock }),
    onLimitExceeded: (info) => void seen.reported.push(info),
    ...options,
  });
  const ws = { readyState: "OPEN", close: (...args: unknown[]) => void seen.closes.push(args) };
  const context: WsKitContext = {
    type: "say",
    clientId: "c1",
    ws,
    data: {},
    error: (code) => void seen.errors.push(code),
  };
  const send = () => limit(context, async () => void seen.handled++);
  return { seen, send, ws };
}

describe("onExceeded", () => {
  it("sends an error by default", async () => {
    const { seen, send } = connected({});
    for (let i = 0; i < 4; i++) await send();
    expect(seen).toMatchObject({ handled: 2, errors: ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"], closes: [] });
    expect(seen.reported.map(({ action }) => action)).toEqual(["send", "send"]);
  });

  it.each([
    ["close", 1013, '{"limit":"rate","retryAfterMs":500}'],
    ["ban", 1008, '{"limit":"rate","banned":true}'],
  ] as const)("%s: closes once, and handles nothing afterwards", async (onExceeded, code, reason) => {
    const { seen, send } = connected({ onExceeded });
    for (let i = 0; i < 5; i++) await send();
    expect(seen).toMatchObject({ handled: 2, errors: [], closes: [[code, reason]] });
    expect(seen.reported.map(({ action, retryAfterMs }) => [action, retryAfterMs])).toEqual([[onExceeded, 500]]);
  });

  it("custom: leaves it to the listener", async () => {
    const { seen, send } = connected({ onExceeded: "custom", cost: () => 0.5 });
    await send();
    expect(seen).toMatchObject({ handled: 0, errors: [], closes: [], reported: [] });
    const limited = connected({ onExceeded: "custom" });
    for (let i = 0; i < 3; i++) await limited.send();
    expect(limited.seen).toMatchObject({ handled: 2, errors: [], closes: [] });
    expect(limited.seen.reported).toHaveLength(1);
  });

  it("takes a function, and sends an error if it fails", async () => {
    const actions: unknown[] = ["send", "no action", "close"];
    const errors: unknown[] = [];
    const onExceeded = () => actions.shift() as ExceededAction;
    const { seen, send } = connected({ onExceeded, onError: (error) => void errors.push(error) });
    for (let i = 0; i < 5; i++) await send();
    expect(seen).toMatchObject({ handled: 2, errors: ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"] });
    expect(seen.closes).toHaveLength(1);
    expect(errors).toHaveLength(1);
  });

  it("closes after a number of rejected messages, with a code of the application", async () => {
    const { seen, send } = connected({ closeAfter: 3, closeCodes: { rate: 4000 } });
    for (let i = 0; i < 9; i++) await send();
    expect(seen.errors).toHaveLength(2);
    expect(seen.closes).toEqual([[4000, '{"limit":"rate","retryAfterMs":500}']]);
  });

  it("does not close for a cost that never fits or a store that failed", async () => {
    const never = connected({ onExceeded: "close", cost: () => 9 });
    await never.send();
    expect(never.seen).toMatchObject({ errors: ["FAILED_PRECONDITION"], closes: [] });
    const limiter = { consume: () => Promise.reject(new Error("down")), getPolicy: () => ({ capacity: 2 }) };
    const failing = connected({ onExceeded: "close", limiter });
    await expect(failing.send()).rejects.toThrow("down");
    expect(failing.seen).toMatchObject({ errors: ["UNAVAILABLE"], closes: [] });
  });

  it.each([
    [{ onExceeded: "stop" }, "onExceeded must be"],
    [{ closeAfter: 0 }, "closeAfter must be"],
    [{ closeCodes: { rate: 1005 } }, "closeCodes.rate must be"],
  ])("rejects %j", (options, message) => {
    expect(() => connected(options as never)).toThrow(message);
  });
});

describe("ctx.ws.data", () => {
  const messageOf = (userId: string, ws: object) => ({ type: "say", clientId: "c1", data: { userId }, ws, error() {} });

  it.each([
    ["a socket without data", () => ({})],
    ["a socket with its own data, as on Bun", (userId: string) => ({ data: { userId } })],
  ])("is the data of the connection for keys and costs, on %s", async (_what, socketOf) => {
    const keys: string[] = [];
    const costs: number[] = [];
    const limiter = memoryRateLimiter("5/m");
    const limit = rateLimit({
      limiter: { getPolicy: limiter.getPolicy.bind(limiter), consume: (...args) => limiter.consume(...args) },
      key: (ctx) => {
        keys.push(`user:${ctx.ws.data?.userId ?? "anon"}`);
        return keys.at(-1) as string;
      },
      cost: (ctx) => {
        costs.push(ctx.ws.data?.userId === "ann" ? 1 : 2);
        return costs.at(-1) as number;
      },
    });
    for (const userId of ["ann", "bob"]) await limit(messageOf(userId, socketOf(userId)), async () => {});
    expect({ keys, costs }).toEqual({ keys: ["user:ann", "user:bob"], costs: [1, 2] });
  });

  it("is not added without a function that could read it, nor to a frozen socket", async () => {
    const limiter = memoryRateLimiter("5/m");
    const ws = {};
    await rateLimit({ limiter })(messageOf("ann", ws), async () => {});
    expect("data" in ws).toBe(false);
    let handled = 0;
    await rateLimit({ limiter, cost: () => 1 })(messageOf("ann", Object.freeze({})), async () => void handled++);
    expect(handled).toBe(1);
  });
});

describe("keys that don't distinguish clients", () => {
  const warnings: string[] = [];
  beforeEach(() => {
    warnings.length = 0;
    const spy = vi.spyOn(process, "emitWarning").mockImplementation((message) => void warnings.push(String(message)));
    return () => spy.mockRestore();
  });
  const limiter = () => memoryRateLimiter("5/m", { maxKeys: 100_000 });
  const message = { type: "say", clientId: "c1", data: {}, error() {} };

  it.each([
    ["user:undefined", "in place of an id", (_i: number) => "user:undefined"],
    ["a new key per message", "1000 of the last 1000 messages had a new key", (i: number) => `message:${i}`],
  ])("%s: the middleware warns once", async (_what, expected, keyOf) => {
    let count = 0;
    const limit = rateLimit({ limiter: limiter(), key: () => keyOf(count++) });
    for (let i = 0; i < 2500; i++) await limit({ ...message, ws: {} }, async () => {});
    expect(warnings).toEqual([expect.stringContaining(expected)]);
  });

  it.each([
    ["user:undefined", "in place of an id", (_i: number) => "user:undefined"],
    ["a new key per message", "1000 of the last 1000 messages had a new key", (i: number) => `message:${i}`],
  ])("%s: the guard warns once", (_what, expected, keyOf) => {
    let count = 0;
    const guard = createGuard({ limits: { limiter: limiter(), key: () => keyOf(count++) }, connection: false });
    const connection = guard.attach({ id: "c1", send() {}, close() {} });
    for (let i = 0; i < 2500; i++) connection.receive("hello", () => {});
    expect(warnings).toEqual([expect.stringContaining(expected)]);
  });

  it("says nothing about keys of users", async () => {
    const limit = rateLimit({ limiter: limiter(), key: ({ clientId }) => `user:${clientId}` });
    for (let i = 0; i < 2500; i++) await limit({ ...message, clientId: `${i % 50}`, ws: {} }, async () => {});
    expect(warnings).toEqual([]);
  });
});
