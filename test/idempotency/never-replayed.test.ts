/** A rejection inside of `idempotent` is never replayed: by a limit, a store that is unavailable, or a challenge. */
import { createLimiter, memoryStore } from "sluice";
import { abuse, challenge } from "sluice/abuse";
import { type FetchRateLimitOptions, idempotent, rateLimit } from "sluice/fetch";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { loadRules } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";

function app(options: FetchRateLimitOptions) {
  const store = memoryIdempotencyStore();
  let runs = 0;
  const handler = idempotent({ store, scope: () => "ada" })(
    rateLimit({ key: () => "ada", ...options })(() => new Response(`run ${++runs}`, { status: 201 })),
  );
  const send = async (key: string, more: Record<string, string> = {}) => {
    const headers = { "Idempotency-Key": key, "x-client": "203.0.113.7", "user-agent": "Firefox", ...more };
    const response = await handler(new Request("http://localhost/pay", { method: "POST", headers }));
    return `${response.status}${response.headers.has("Idempotent-Replayed") ? " replayed" : ""}`;
  };
  return { store, send, runs: () => runs };
}

describe("a rejection inside of idempotent", () => {
  it("by a limit is not replayed, and the retry runs", async () => {
    const clock = fakeClock();
    const limiter = createLimiter({ policy: { capacity: 1, tokensPerSecond: 1 }, store: memoryStore({ clock }) });
    const { send, runs, store } = app({ limiter });
    expect([await send("a"), await send("b"), await send("b")]).toEqual(["201", "429", "429"]);
    expect(store.size).toBe(1);
    clock.advance(1000);
    expect([await send("b"), await send("b"), await send("a")]).toEqual(["201", "201 replayed", "201 replayed"]);
    expect(runs()).toBe(2);
  });

  it("because the limiter's store is unavailable is not replayed, and the retry runs", async () => {
    let isDown = true;
    const store = memoryStore();
    const remote = {
      consistency: "exact" as const,
      apply: async (...args: Parameters<typeof store.apply>) => {
        if (isDown) throw new Error("down");
        return store.apply(...args);
      },
      inspect: (...args: Parameters<typeof store.inspect>) => store.inspect(...args),
      dispose: async () => {},
    };
    const { send, runs } = app({ limiter: createLimiter({ policy: "9/m", store: remote, onStoreError: "closed" }) });
    expect([await send("a"), await send("a")]).toEqual(["503", "503"]);
    isDown = false;
    expect([await send("a"), await send("a"), runs()]).toEqual(["201", "201 replayed", 1]);
  });

  it("by a challenge is not replayed, and the retry runs", async () => {
    const data = {
      rules: [{ name: "pay", match: "POST /pay", limits: { ip: "1/h log" }, action: "challenge" }],
      fallback: { limits: { ip: "100/h" } },
    };
    const clock = fakeClock();
    const provider = {
      name: "stand-in",
      siteKey: "site",
      scriptUrl: "https://captcha.example/api.js",
      frameOrigin: "https://captcha.example",
      tokenField: "stand-in-response",
      verify: async () => ({ ok: true, codes: [] }),
    };
    const secret = ["0123456789abcdef0123456789abcdef"] as const;
    const { send, runs } = app({
      key: undefined as never,
      rules: loadRules(data, { store: memoryStore({ clock }), facts: [] }),
      abuse: abuse({ challenge: challenge({ provider, secret }) }),
      identity: { trustedProxies: 1, header: "x-client" },
    });
    expect([await send("a"), await send("b"), await send("b")]).toEqual(["201", "403", "403"]);
    clock.advance(3_600_000);
    expect([await send("b"), await send("b"), runs()]).toEqual(["201", "201 replayed", 2]);
  });

  it("is charged if rateLimit is mounted before idempotent", async () => {
    const store = memoryIdempotencyStore();
    let runs = 0;
    const handler = rateLimit({ policy: { capacity: 3, tokensPerSecond: "1/d" }, key: () => "ada" })(
      idempotent({ store, scope: () => "ada" })(() => new Response(`run ${++runs}`)),
    );
    const statuses = [];
    for (let i = 0; i < 4; i++) {
      const headers = { "Idempotency-Key": "a" };
      statuses.push((await handler(new Request("http://localhost/pay", { method: "POST", headers }))).status);
    }
    expect([statuses, runs]).toEqual([[200, 200, 200, 429], 1]);
  });
});
