/** Scopes, payloads and problems of `idempotent`, with a fake clock. */
import { idempotent } from "sluice/fetch";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { codeOf, payment, scope, serverOf, storeWith } from "../../../test/idempotency/payment-server.ts";

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

describe("a scope", () => {
  it("that is missing warns once per middleware, and the header is ignored", async () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const store = memoryIdempotencyStore();
    const handler = idempotent({ store })(async () => new Response("ok"));
    for (let i = 0; i < 3; i++) await handler(payment());
    expect(warned.mock.calls).toEqual([
      [
        expect.stringContaining("A request has an Idempotency-Key header and no scope, so the header was ignored."),
        { type: "SluiceWarning", code: "SLUICE_MISUSE" },
      ],
    ]);
    expect(store.size).toBe(0);
    warned.mockRestore();
  });

  it("is the verified user or API key of identity, and never the address", async () => {
    const store = memoryIdempotencyStore();
    const claimed: string[] = [];
    const spied = {
      ...storeWith(() => ({})),
      begin(claim: Parameters<typeof store.begin>[0]) {
        claimed.push(claim.scope);
        return store.begin(claim);
      },
    };
    const verify = (key: string) => (key === "good" ? "acme" : undefined);
    const handler = idempotent({ store: spied, identity: { apiKey: { verify } } })(async () => new Response("ok"));
    for (const key of ["good", "bad"]) await handler(payment({ headers: { "X-Api-Key": key } }));
    expect(claimed).toEqual(["key:acme"]);
  });

  it("must be a string", async () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const { send } = serverOf({ scope: () => 42 as never });
    expect((await send()).status).toBe(500);
    warned.mockRestore();
  });

  it("that is empty is none", async () => {
    const { run, runs } = serverOf({ scope: () => "" });
    await run();
    await run();
    expect(runs).toHaveLength(2);
  });
});

describe("a callback that never settles", () => {
  const hang = () => new Promise<never>(() => {});

  it.each([
    ["scope", { scope: hang }],
    ["fingerprint", { fingerprint: hang }],
    ["identity.apiKey.verify", { scope: undefined, identity: { apiKey: { verify: hang } } }],
  ] as const)("fails the request after callbackDeadlineMs: %s", async (option, options) => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const { send, runs } = serverOf(options as never);
    const response = send({ headers: { "X-Api-Key": "k" } });
    const answered = vi.fn();
    void response.then(answered);
    await vi.advanceTimersByTimeAsync(4999);
    expect(answered).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect([(await response).status, runs]).toEqual([500, []]);
    expect(warned.mock.calls.map(([text]) => text)).toEqual([
      expect.stringContaining(`${option} did not settle within 5000 ms.`),
    ]);
    warned.mockRestore();
  });

  it("has the deadline of the option", async () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const { send } = serverOf({ scope: hang, callbackDeadlineMs: "20ms" });
    const response = send();
    await vi.advanceTimersByTimeAsync(20);
    expect((await response).status).toBe(500);
    warned.mockRestore();
    expect(() => serverOf({ callbackDeadlineMs: 0 })).toThrow(/callbackDeadlineMs/);
  });
});

describe("a payload", () => {
  it("is equal if fingerprint returns the same", async () => {
    const { run, runs } = serverOf({
      fingerprint: async (request) => (await request.clone().json()).amount.toFixed(2),
    });
    await run({ body: '{"amount":1,"a":1}' });
    expect((await run({ body: '{"a":2,"amount":1.001}' })).headers.get("Idempotent-Replayed")).toBe("true");
    expect([(await run({ body: '{"amount":2}' })).status, runs.length]).toEqual([422, 1]);
  });

  it("includes method, path, query, content type and body", async () => {
    const { run } = serverOf();
    await run();
    expect((await run({ body: "101" })).status).toBe(422);
    expect((await run({ method: "PATCH" })).status).toBe(422);
    expect((await run({ headers: { "Content-Type": "application/json" } })).status).toBe(422);
    expect((await run({ body: "x".repeat(100_000) })).status).toBe(422);
    expect((await run()).status).toBe(201);
  });

  it("of more than 1 MiB is rejected, whether its length is declared or not", async () => {
    const { run, runs } = serverOf();
    const response = await run({ body: "x".repeat(2 ** 20 + 1) });
    expect([response.status, await codeOf(response)]).toEqual([413, "body-too-long"]);
    expect((await run({ key: "k2", body: "x".repeat(2 ** 20) })).status).toBe(201);
    expect(runs).toHaveLength(1);
  });

  it("that was read before is an error", async () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const handler = idempotent({ store: memoryIdempotencyStore(), scope })(async () => new Response("ok"));
    const request = payment();
    await request.text();
    expect((await handler(request)).status).toBe(500);
    expect(String(warned.mock.calls[0]?.[0])).toContain("the body was read before");
    warned.mockRestore();
  });

  it("can still be read by the handler", async () => {
    const handler = idempotent({ store: memoryIdempotencyStore(), scope })(
      async (request: Request) => new Response(await request.text()),
    );
    expect(await (await handler(payment({ body: "the body" }))).text()).toBe("the body");
  });
});

describe("problems", () => {
  it("have the type of the option docs", async () => {
    const { send } = serverOf({ docs: "https://example.com/retries" });
    const response = await send({ key: "a b" });
    expect(Object.fromEntries(response.headers)).toEqual({
      "cache-control": "no-store",
      "content-type": "application/problem+json",
    });
    expect(await response.json()).toEqual({
      type: "https://example.com/retries",
      title: "Bad Request",
      status: 400,
      detail: "The Idempotency-Key header must be one key of 1 to 255 printable characters.",
      code: "key-malformed",
    });
  });
});
