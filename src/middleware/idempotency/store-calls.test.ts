/** Stores that fail, and requests that wait for others, with a fake clock. */
import { type IdempotencyStore, memoryIdempotencyStore } from "sluice/idempotency";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { codeOf, serverOf, storeWith } from "../../../test/idempotency/payment-server.ts";

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

describe("a store that fails", () => {
  const hanging = () => storeWith(() => ({ begin: () => new Promise<never>(() => {}) }));

  it("rejects requests with a key with 503 after the deadline, and others not", async () => {
    const { send, run, runs } = serverOf({ store: hanging() });
    const sent = send();
    await vi.advanceTimersByTimeAsync(300);
    const response = await sent;
    expect([response.status, response.headers.get("Retry-After"), await codeOf(response)]).toEqual([
      503,
      "1",
      "store-unavailable",
    ]);
    expect((await run({ key: null })).status).toBe(201);
    expect(runs).toHaveLength(1);
  });

  it("is not called while its circuit is open", async () => {
    let calls = 0;
    const store = storeWith(() => ({
      begin: async () => {
        calls++;
        throw new Error("down");
      },
    }));
    const { send, events } = serverOf({ store });
    for (let i = 0; i < 20; i++) {
      expect((await send()).status).toBe(503);
      await vi.advanceTimersByTimeAsync(10);
    }
    expect([calls, events.map(({ type }) => type)]).toEqual([5, ["store-down"]]);
  });

  it("runs the handler without idempotency with open, and reports it", async () => {
    const { run, runs, events } = serverOf({
      store: storeWith(() => ({ begin: () => Promise.reject(new Error("down")) })),
      onStoreError: "open",
    });
    expect([(await run()).status, (await run()).status, runs.length]).toEqual([201, 201, 2]);
    expect(runs[0]?.attempt).toBeUndefined();
    expect(events).toMatchObject([
      { type: "response-not-stored", key: "k1", scope: "ada", reason: "store" },
      { type: "response-not-stored" },
    ]);
  });

  it("passes the error to the server with throw", async () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const { send } = serverOf({
      store: storeWith(() => ({ begin: () => Promise.reject(new Error("down")) })),
      onStoreError: "throw",
    });
    expect((await send()).status).toBe(500);
    expect(String(warned.mock.calls[0]?.[0])).toContain("A request could not be checked");
    warned.mockRestore();
  });

  it("does not keep a key claimed by a call that was too late", async () => {
    let delayMs = 1000;
    const store = storeWith((inner) => ({
      begin: async (claim) => {
        await new Promise((resolve) => setTimeout(resolve, delayMs));
        return inner.begin(claim);
      },
    }));
    const { send, runs } = serverOf({ store });
    const sent = send();
    await vi.advanceTimersByTimeAsync(2000);
    expect((await sent).status).toBe(503);
    delayMs = 0;
    void send();
    await vi.advanceTimersByTimeAsync(10);
    expect(runs.map(({ attempt }) => attempt)).toEqual([1]);
  });

  it("delays a response by the deadline at most, and stores it when it is back", async () => {
    let isDown = true;
    const store = storeWith((inner) => ({
      complete: (...args) => (isDown ? new Promise<never>(() => {}) : inner.complete(...args)),
    }));
    const { send, runs, run, events } = serverOf({ store });
    const sent = send();
    await vi.advanceTimersByTimeAsync(0);
    runs[0]?.finish();
    let isSent = false;
    void sent.then(() => (isSent = true));
    await vi.advanceTimersByTimeAsync(200);
    expect(isSent).toBe(false);
    await vi.advanceTimersByTimeAsync(100);
    expect([isSent, (await sent).status]).toEqual([true, 201]);
    expect(events).toMatchObject([{ type: "response-not-stored", status: 201, reason: "store" }]);
    isDown = false;
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await run()).headers.get("Idempotent-Replayed")).toBe("true");
    await vi.advanceTimersByTimeAsync(20);
    expect([runs.length, vi.getTimerCount()]).toEqual([1, 0]);
  });

  it("stores the status of a response that it refuses", async () => {
    const { run, events } = serverOf();
    const headers = { Location: `/${"x".repeat(70_000)}` };
    expect((await run({}, new Response("long", { status: 201, headers }))).status).toBe(201);
    const retry = await run();
    expect([retry.status, await retry.json()]).toMatchObject([
      409,
      { code: "response-not-stored", "original-status": 201 },
    ]);
    expect(events).toMatchObject([{ type: "response-not-stored", reason: "refused", error: { code: "out-of-range" } }]);
  });
});

describe("wait", () => {
  it("returns the response as soon as it is stored in this process", async () => {
    const { send, runs } = serverOf({ wait: "5s" });
    const all = [send(), send(), send()];
    await vi.advanceTimersByTimeAsync(1000);
    runs[0]?.finish();
    await vi.advanceTimersByTimeAsync(1);
    const texts = await Promise.all(all.map(async (one) => (await one).text()));
    expect([texts, runs.length]).toEqual([["run 1", "run 1", "run 1"], 1]);
  });

  it("polls the store for a response of another process, at most four times a second", async () => {
    const store = memoryIdempotencyStore({ clock: { now: () => Date.now() } });
    let polls = 0;
    const sharedBy = (count: boolean): IdempotencyStore => ({
      begin(claim) {
        if (count) polls++;
        return store.begin(claim);
      },
      read: (...args) => store.read(...args),
      renew: (...args) => store.renew(...args),
      complete: (...args) => store.complete(...args),
      release: (...args) => store.release(...args),
    });
    const one = serverOf({ store: sharedBy(false) });
    const other = serverOf({ store: sharedBy(true), wait: "60s" });
    const first = one.send();
    await vi.advanceTimersByTimeAsync(0);
    const waiting = other.send();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(polls).toBeLessThan(90);
    one.runs[0]?.finish();
    await vi.advanceTimersByTimeAsync(260);
    expect([await (await waiting).text(), await (await first).text(), other.runs.length]).toEqual([
      "run 1",
      "run 1",
      0,
    ]);
  });

  it("ends with a 409", async () => {
    const { send } = serverOf({ wait: "5s" });
    void send();
    await vi.advanceTimersByTimeAsync(0);
    const waiting = send();
    await vi.advanceTimersByTimeAsync(5001);
    expect((await waiting).status).toBe(409);
  });

  it("ends when the client disconnects", async () => {
    let polls = 0;
    const store = storeWith((inner) => ({
      begin(claim) {
        polls++;
        return inner.begin(claim);
      },
    }));
    const { send } = serverOf({ store, wait: "60s" });
    void send();
    await vi.advanceTimersByTimeAsync(0);
    const leaver = new AbortController();
    const waiting = send({ signal: leaver.signal });
    await vi.advanceTimersByTimeAsync(1000);
    leaver.abort();
    await vi.advanceTimersByTimeAsync(0);
    const before = polls;
    await vi.advanceTimersByTimeAsync(20_000);
    expect([(await waiting).status, polls]).toEqual([409, before]);
  });

  it("runs the handler if the first request is released", async () => {
    const { send, runs } = serverOf({ wait: "5s" });
    const first = send();
    await vi.advanceTimersByTimeAsync(0);
    const waiting = send();
    await vi.advanceTimersByTimeAsync(100);
    runs[0]?.finish(new Response("later", { status: 429 }));
    await vi.advanceTimersByTimeAsync(1);
    runs[1]?.finish();
    await vi.advanceTimersByTimeAsync(1);
    expect([(await first).status, await (await waiting).text(), runs.map(({ attempt }) => attempt)]).toEqual([
      429,
      "run 2",
      [1, 1],
    ]);
  });

  it("polls once per key for all that wait, and replays to as many as the replay limit allows", async () => {
    let calls = 0;
    const store = storeWith((inner) => ({
      begin(claim) {
        calls++;
        return inner.begin(claim);
      },
    }));
    const { send, runs } = serverOf({ store, wait: "60s", replayLimit: "1000/m" });
    const first = send();
    await vi.advanceTimersByTimeAsync(0);
    const waiting = Array.from({ length: 90 }, () => send());
    await vi.advanceTimersByTimeAsync(1000);
    calls = 0;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(calls).toBeLessThanOrEqual(41);
    calls = 0;
    runs[0]?.finish();
    await vi.advanceTimersByTimeAsync(1);
    const texts = await Promise.all(waiting.map(async (one) => (await one).text()));
    expect([new Set(texts), (await first).status, runs.length, calls]).toEqual([new Set(["run 1"]), 201, 1, 1]);
  });

  it("rejects what exceeds 100 waiting requests of a scope at once, and no other scope", async () => {
    const { send, runs } = serverOf({ wait: "5s", replayLimit: "1000/m" });
    void send();
    void send({ user: "bob" });
    await vi.advanceTimersByTimeAsync(0);
    const statuses: number[] = [];
    const waiting = Array.from({ length: 150 }, () => send().then(({ status }) => statuses.push(status)));
    const other = send({ user: "bob" });
    await vi.advanceTimersByTimeAsync(10);
    expect(statuses).toEqual(Array(50).fill(409));
    for (const { finish } of runs) finish();
    await vi.advanceTimersByTimeAsync(5);
    await Promise.all(waiting);
    expect(statuses.filter((status) => status === 201)).toHaveLength(100);
    expect((await other).headers.get("Idempotent-Replayed")).toBe("true");
  });

  it("lets the others wait on if the one that polls leaves, and frees a key that it claimed", async () => {
    const { send, runs } = serverOf({ wait: "60s" });
    const first = send();
    await vi.advanceTimersByTimeAsync(0);
    const leaver = new AbortController();
    const left = send({ signal: leaver.signal });
    await vi.advanceTimersByTimeAsync(10);
    const waiting = send();
    await vi.advanceTimersByTimeAsync(1000);
    leaver.abort();
    runs[0]?.finish(new Response("later", { status: 429 }));
    await vi.advanceTimersByTimeAsync(300);
    expect([(await left).status, (await first).status, runs.length]).toEqual([409, 429, 2]);
    runs[1]?.finish();
    await vi.advanceTimersByTimeAsync(5);
    expect([await (await waiting).text(), vi.getTimerCount()]).toEqual(["run 2", 0]);
  });
});
