/** Concurrency limits on WebSockets: handlers in flight per key, and open connections in all processes. */
import { concurrency, createLimiter, memoryStore } from "sluice";
import { createGuard } from "sluice/ws";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Data, setUp } from "../../../test/ws/set-up.ts";

const flush = async () => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

afterEach(() => {
  vi.useRealTimers();
});

/** A handler whose calls the test ends one by one. */
function slowHandler() {
  const ends: (() => void)[] = [];
  const handle = () => new Promise<void>((resolve) => ends.push(resolve));
  return { ends, handle };
}

describe("concurrent handlers", () => {
  const limited = (limit: number) => createLimiter({ policy: concurrency(limit), store: memoryStore() });

  it("are limited per key, and a handler that has settled makes room", async () => {
    const { connection, exceeded } = setUp({ limits: { limiter: limited(2), key: () => "user:ann" } });
    const { ends, handle } = slowHandler();
    for (let i = 0; i < 3; i++) connection.receive(String(i), handle);
    expect(ends).toHaveLength(2);
    expect(exceeded).toMatchObject([{ key: "user:ann", limit: 2 }]);
    ends[0]?.();
    await flush();
    connection.receive("4", handle);
    expect(ends).toHaveLength(3);
  });

  it("make room when they throw, reject or return nothing", async () => {
    const errors: unknown[] = [];
    const { connection, exceeded } = setUp({
      limits: { limiter: limited(1), key: () => "k" },
      onError: (error) => errors.push(error),
    });
    connection.receive("1", () => {
      throw new Error("thrown");
    });
    await flush();
    connection.receive("2", () => Promise.reject(new Error("rejected")));
    await flush();
    connection.receive("3", () => undefined);
    await flush();
    connection.receive("4", () => undefined);
    expect(exceeded).toEqual([]);
    expect(errors).toHaveLength(2);
  });

  it("count for all connections of a key, and frames without a handler hold nothing", async () => {
    const limiter = limited(1);
    const options = { limits: { limiter, key: () => "user:ann" }, validate: (frame: unknown) => frame !== "bad" };
    const [one, other] = [setUp(options), setUp(options)];
    const { ends, handle } = slowHandler();
    one.connection.receive("bad", handle);
    await flush();
    one.connection.receive("1", handle);
    other.connection.receive("2", handle);
    expect(ends).toHaveLength(1);
    expect(other.exceeded).toHaveLength(1);
  });

  it("are renewed while they run", async () => {
    vi.useFakeTimers();
    const limiter = createLimiter({ policy: concurrency(1, { leaseMs: 900 }), store: memoryStore() });
    const { connection, exceeded } = setUp({ limits: { limiter, key: () => "k" } });
    const { ends, handle } = slowHandler();
    connection.receive("1", handle);
    for (let i = 0; i < 10; i++) {
      await vi.advanceTimersByTimeAsync(450);
      expect((await limiter.peek("k")).allowed).toBe(false);
    }
    ends[0]?.();
    await flush();
    expect((await limiter.peek("k")).allowed).toBe(true);
    expect(exceeded).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("are released with the frames that a closed connection drops", async () => {
    const limiter = limited(5);
    const { connection } = setUp({ limits: { limiter, key: () => "k" }, connection: "100/s queue 100" });
    for (let i = 0; i < 5; i++) connection.receive(String(i), () => new Promise<void>(() => {}));
    // The first one runs, the others wait for their delay.
    expect((await limiter.peek("k")).held).toBe(5);
    connection.end();
    await flush();
    expect((await limiter.peek("k")).held).toBe(1);
  });
});

describe("open connections in all processes", () => {
  const guards = (limit: number, leaseMs = 60_000) => {
    const store = memoryStore();
    return [1, 2].map(() => {
      const limiter = createLimiter({ policy: concurrency(limit, { leaseMs, name: "open", share: true }), store });
      return createGuard<Data>({ maxOpenPerUser: limiter });
    });
  };
  const request = { peer: "192.0.2.7", headers: {} };
  const ann = { userId: "ann" };

  it("share a limit", async () => {
    const [one, other] = guards(3) as [ReturnType<typeof createGuard<Data>>, ReturnType<typeof createGuard<Data>>];
    const admitted = await Promise.all([one, one, other, other, one].map((guard) => guard.admit(request, ann)));
    expect(admitted.filter(({ allowed }) => allowed)).toHaveLength(3);
    const rejected = admitted.find(({ allowed }) => !allowed);
    expect(rejected).toMatchObject({ response: { status: 429 } });
    for (const result of admitted) if (result.allowed) result.release();
    await flush();
    for (let i = 0; i < 3; i++) expect((await other.admit(request, ann)).allowed).toBe(true);
    expect((await one.admit(request, ann)).allowed).toBe(false);
    expect((await one.admit(request, { userId: "bob" })).allowed).toBe(true);
  });

  it("stay counted while they are open", async () => {
    vi.useFakeTimers();
    const [one, other] = guards(1, 900) as [ReturnType<typeof createGuard<Data>>, ReturnType<typeof createGuard<Data>>];
    const open = await one.admit(request, ann);
    await vi.advanceTimersByTimeAsync(5000);
    expect((await other.admit(request, ann)).allowed).toBe(false);
    if (open.allowed) open.release();
    await flush();
    expect((await other.admit(request, ann)).allowed).toBe(true);
  });

  it("of a process that has ended stay counted until its lease ends", async () => {
    vi.useFakeTimers();
    const [one, other] = guards(1, 900) as [ReturnType<typeof createGuard<Data>>, ReturnType<typeof createGuard<Data>>];
    // A process that has ended renews nothing.
    vi.spyOn(globalThis, "setInterval").mockReturnValueOnce(0 as never);
    expect((await one.admit(request, ann)).allowed).toBe(true);
    await vi.advanceTimersByTimeAsync(899);
    expect((await other.admit(request, ann)).allowed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect((await other.admit(request, ann)).allowed).toBe(true);
  });

  it("need a limiter with one concurrency policy", () => {
    const limiter = createLimiter({ policy: "5/s", store: memoryStore() });
    expect(() => createGuard({ maxOpenPerUser: limiter })).toThrow("such as concurrency(20)");
  });
});
