/** Leases and responses of requests that run, with a fake clock. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { codeOf, serverOf, storeWith } from "../../../test/idempotency/payment-server.ts";

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

describe("a lease", () => {
  it("is renewed while the handler runs, and not afterwards", async () => {
    const renewed: number[] = [];
    const store = storeWith((inner) => ({
      renew: (key, owner, leaseMs) => {
        renewed.push(leaseMs);
        return inner.renew(key, owner, leaseMs);
      },
    }));
    const { runs, send, events } = serverOf({ store });
    const first = send();
    await vi.advanceTimersByTimeAsync(100_000);
    expect(renewed).toEqual(new Array(10).fill(30_000));
    const retry = await send();
    expect([retry.status, retry.headers.get("Retry-After"), await codeOf(retry)]).toEqual([
      409,
      "1",
      "request-in-progress",
    ]);
    runs[0]?.finish();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([(await first).status, renewed.length, runs.length, events]).toEqual([201, 10, 1, []]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("of a process that died ends, and the retry is attempt 2", async () => {
    const { runs, send } = serverOf({ store: storeWith(() => ({ renew: () => new Promise<never>(() => {}) })) });
    void send();
    await vi.advanceTimersByTimeAsync(29_999);
    expect((await send()).status).toBe(409);
    await vi.advanceTimersByTimeAsync(1);
    void send();
    await vi.advanceTimersByTimeAsync(0);
    expect(runs.map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  it("that another request has taken is reported once, and only its response is stored", async () => {
    const { runs, send, run, events } = serverOf();
    const first = send();
    await vi.advanceTimersByTimeAsync(0);
    // The event loop of the first process is blocked: the clock moves on, and no timer fires.
    vi.setSystemTime(Date.now() + 31_000);
    const second = send();
    await vi.advanceTimersByTimeAsync(0);
    runs[0]?.finish();
    await vi.advanceTimersByTimeAsync(5);
    runs[1]?.finish();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([await (await first).text(), await (await second).text()]).toEqual(["run 1", "run 2"]);
    expect(await (await run()).text()).toBe("run 2");
    expect(events).toEqual([{ type: "lease-lost", policy: "", scope: "ada", key: "k1" }]);
  });

  it("is not lost if a renewal arrives after the response", async () => {
    const store = storeWith((inner) => ({
      async renew(...args) {
        await new Promise((resolve) => setTimeout(resolve, 5000));
        return inner.renew(...args);
      },
    }));
    const { runs, send, events } = serverOf({ store });
    const first = send();
    await vi.advanceTimersByTimeAsync(12_000);
    runs[0]?.finish();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([(await first).status, events, vi.getTimerCount()]).toEqual([201, [], 0]);
  });

  it("survives renewals that fail", async () => {
    let failures = 2;
    const store = storeWith((inner) => ({
      renew: async (...args) => {
        if (failures-- > 0) throw new Error("down");
        return inner.renew(...args);
      },
    }));
    const { runs, send } = serverOf({ store });
    void send();
    await vi.advanceTimersByTimeAsync(29_000);
    expect((await send()).status).toBe(409);
    await vi.advanceTimersByTimeAsync(25_000);
    expect([(await send()).status, runs.length]).toEqual([409, 1]);
  });
});

describe("a response", () => {
  it.each([
    [Object.assign(new Error("limited"), { status: 429 }), 2],
    [Object.assign(new Error("unavailable"), { statusCode: 503 }), 2],
    [new Error("on purpose"), 1],
    [Object.assign(new Error("not found"), { status: 404 }), 1],
  ])("of a handler that throws %s is kept by the status of the error", async (error, count) => {
    const { send, runs, run } = serverOf();
    const failing = send().catch((thrown) => thrown);
    await vi.advanceTimersByTimeAsync(0);
    runs[0]?.fail(error);
    expect(await failing).toBe(error);
    await vi.advanceTimersByTimeAsync(5);
    await run();
    expect(runs).toHaveLength(count);
  });

  it("is stored if shouldStore says so, and if it throws", async () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const { run, runs } = serverOf({
      shouldStore(status) {
        if (status === 418) throw new Error("on purpose");
        return status === 503;
      },
    });
    for (const [key, status] of Object.entries({ a: 503, b: 201, c: 418 })) {
      for (let i = 0; i < 2; i++) await run({ key }, new Response("x", { status }));
    }
    expect(runs).toHaveLength(4);
    expect(String(warned.mock.calls[0]?.[0])).toContain("shouldStore of idempotent failed");
    warned.mockRestore();
  });

  it("is stored with the headers of the option only", async () => {
    const { run } = serverOf({ storedHeaders: ["X-Own"] });
    const headers = { "X-Own": "1", Location: "/1", "Content-Type": "text/html" };
    await run({}, new Response("x", { status: 201, headers }));
    const { headers: replayed } = await run();
    expect(Object.fromEntries(replayed)).toEqual({ "x-own": "1", "idempotent-replayed": "true" });
  });

  it("expires", async () => {
    const { run, runs } = serverOf({ ttl: "1h" });
    await run();
    await vi.advanceTimersByTimeAsync(3_590_000);
    expect((await run()).headers.get("Idempotent-Replayed")).toBe("true");
    await vi.advanceTimersByTimeAsync(10_000);
    await run();
    expect(runs.map(({ attempt }) => attempt)).toEqual([1, 1]);
  });
});
