/** The order of frames with asynchronous stores and delays, and the end of handling after a close. */
import { createLimiter, leakyBucket, memoryRateLimiter, memoryStore } from "sluice";
import { type Frame, type GuardOptions, jsonType } from "sluice/ws";
import { afterEach, describe, expect, it, vi } from "vitest";
import { clock, type Data, few, message, perHour, remote, setUp } from "../../../test/ws/set-up.ts";

afterEach(() => {
  vi.useRealTimers();
});

describe("frame order", () => {
  it("is kept if the store replies out of order", async () => {
    const { limiter, calls } = remote(3);
    const { receive, handled, exceeded } = setUp({ limits: { limiter }, onExceeded: "custom" });
    receive("1", "2", "3", "4");
    await calls[3]?.reply();
    await calls[1]?.reply();
    expect(handled).toEqual([]);
    expect(exceeded).toEqual([]);
    await calls[0]?.reply();
    expect(handled).toEqual(["1", "2"]);
    await calls[2]?.reply();
    expect(handled).toEqual(["1", "2", "3"]);
    expect(exceeded).toHaveLength(1);
  });

  it("is kept for frames that are decided while earlier ones wait", async () => {
    const { limiter, calls } = remote(3);
    const { receive, handled, exceeded } = setUp({
      typeOf: jsonType(),
      types: ["say", "free"],
      heartbeats: ["ping"],
      connection: perHour(2),
      limits: { limiter, cost: ({ type }) => (type === "free" ? 0 : 1) },
      onExceeded: "custom",
    });
    receive(message("say"), message("ping"), message("free"), message("say"));
    expect(handled).toEqual([]);
    // The connection's own bucket has denied the last frame, which is reported in its turn.
    expect(exceeded).toEqual([]);
    await calls[0]?.reply();
    expect(handled).toEqual([message("say"), message("ping"), message("free")]);
    expect(exceeded).toMatchObject([{ key: "connection:c1" }]);
  });

  it("includes the delay of a leaky bucket for frames behind the delayed one", async () => {
    vi.useFakeTimers();
    const limiter = memoryRateLimiter(leakyBucket("10/s", { burst: 5 }));
    const { receive, handled, connection } = setUp({
      limits: { limiter, key: () => "all", cost: (ingress) => (ingress.type === "free" ? 0 : 1) },
      typeOf: (frame) => String(frame),
      types: "any",
    });
    receive("1", "2", "3", "free");
    expect(handled).toEqual(["1"]);
    await vi.advanceTimersByTimeAsync(99);
    expect(handled).toEqual(["1"]);
    await vi.advanceTimersByTimeAsync(1);
    expect(handled).toEqual(["1", "2"]);
    await vi.advanceTimersByTimeAsync(100);
    expect(handled).toEqual(["1", "2", "3", "free"]);
    receive("5");
    connection.end();
    await vi.advanceTimersByTimeAsync(1000);
    expect(handled).toEqual(["1", "2", "3", "free"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("reports the remaining wait of a denial that has waited for its turn", async () => {
    vi.useFakeTimers();
    const limiter = memoryRateLimiter(leakyBucket("1/s", { burst: 2 }), { clock });
    const { receive, notices, exceeded, handled } = setUp({ limits: { limiter, key: () => "all" } });
    receive("1", "2", "3");
    await vi.advanceTimersByTimeAsync(600);
    expect([handled, exceeded]).toEqual([["1"], []]);
    await vi.advanceTimersByTimeAsync(400);
    expect(handled).toEqual(["1", "2"]);
    // The wait was one second, and it has passed.
    expect(exceeded).toMatchObject([{ retryAfterMs: 1 }]);
    expect(notices()).toMatchObject([{ retryAfterMs: 1 }]);
  });

  it("uses the longer of the delays of the connection and of a limit", async () => {
    vi.useFakeTimers();
    for (const [own, other, ms] of [
      ["10/s", "20/s", 100],
      ["20/s", "10/s", 100],
    ] as const) {
      const limiter = memoryRateLimiter(leakyBucket(other, { burst: 5 }), { clock });
      const { receive, handled } = setUp({ connection: leakyBucket(own, { burst: 5 }), limits: { limiter } });
      receive("1", "2");
      await vi.advanceTimersByTimeAsync(ms - 1);
      expect(handled).toEqual(["1"]);
      await vi.advanceTimersByTimeAsync(1);
      expect(handled).toEqual(["1", "2"]);
    }
  });

  it("is kept, without a leaked timer, if a handler receives another frame", async () => {
    vi.useFakeTimers();
    const limiter = memoryRateLimiter(leakyBucket("10/s", { burst: 5 }));
    const { connection } = setUp({ limits: { limiter } });
    const handled: Frame[] = [];
    const handle = (frame: Frame) => {
      handled.push(frame);
      if (handled.length < 4) connection.receive(`${handled.length + 1}`, handle);
    };
    connection.receive("1", handle);
    await vi.advanceTimersByTimeAsync(300);
    expect(handled).toEqual(["1", "2", "3", "4"]);
    connection.receive("5", handle);
    connection.end();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("is synchronous with in-memory stores, also for several limits", () => {
    const store = memoryStore({ clock });
    const limiterOf = (name: string) => createLimiter({ store, policy: { ...perHour(9), name } });
    for (const limits of [{ limiter: few(9) }, [{ limiter: limiterOf("a") }, { limiter: limiterOf("b") }]]) {
      const { receive, handled } = setUp({ limits });
      receive("1");
      expect(handled).toEqual(["1"]);
    }
  });
});

describe("a callback that closes the connection", () => {
  const first = <T>(end: () => void, value: T): T => {
    end();
    return value;
  };

  it.each<[string, (end: () => void) => GuardOptions<Data>]>([
    ["typeOf", (end) => ({ typeOf: () => first(end, "say"), types: ["say"] })],
    ["key", (end) => ({ limits: { limiter: few(9), key: () => first(end, "all") } })],
    ["cost", (end) => ({ limits: { limiter: few(9), cost: () => first(end, 1) } })],
    ["validate", (end) => ({ validate: end })],
  ])("prevents the frame from being handled: %s", (_, options) => {
    let end = () => {};
    const { receive, handled, sent, connection } = setUp(options(() => end()));
    end = () => connection.end();
    receive("1");
    expect([handled, sent]).toEqual([[], []]);
  });
});

describe("after a close", () => {
  it("by the application or by the socket, no frame is handled", async () => {
    const { limiter, calls } = remote(9);
    const first = setUp({ limits: { limiter } });
    first.receive("1");
    first.connection.close(4000, "enough");
    first.connection.close(4000, "again");
    expect(first.closes).toEqual([[4000, "enough"]]);
    const second = setUp({ limits: { limiter } });
    second.receive("1");
    Object.assign(second.peer, { isOpen: false });
    second.receive("2");
    for (const { reply } of calls) await reply();
    expect([first.handled, second.handled, calls.length]).toEqual([[], [], 2]);
    expect(second.connection.closed).toBe(true);
  });

  it("no frame is handled, reported or charged", async () => {
    const { limiter, calls } = remote(1);
    const { receive, handled, connection, exceeded, sent } = setUp({ limits: { limiter } });
    receive("1", "2");
    connection.end();
    for (const { reply } of calls) await reply();
    receive("3");
    expect(connection.ping()).toBe(false);
    expect(connection.closed).toBe(true);
    expect({ handled, exceeded, sent, calls: calls.length }).toEqual({ handled: [], exceeded: [], sent: [], calls: 2 });
  });

  it("by the guard, earlier frames are handled and later ones are dropped", async () => {
    // The notice reports the time that is left.
    vi.useFakeTimers();
    const { limiter, calls } = remote(2);
    const { receive, handled, closes, exceeded } = setUp({ limits: { limiter }, onExceeded: "close" });
    receive("1", "2", "3", "4");
    for (const { reply } of calls) await reply();
    expect(handled).toEqual(["1", "2"]);
    expect(exceeded).toHaveLength(1);
    expect(closes).toEqual([[1013, '{"limit":"rate","retryAfterMs":3600000}']]);
  });
});

describe("a failing store", () => {
  it.each([undefined, null, "nonsense", {}])("does not block later frames if it returns %s", async (result) => {
    const { limiter, calls } = remote(9);
    const consume = vi.spyOn(limiter, "consume").mockResolvedValueOnce(result as never);
    const { receive, handled } = setUp({ limits: { limiter } });
    receive("1", "2");
    await calls[0]?.reply();
    await new Promise((resolve) => setTimeout(resolve));
    expect(handled).toEqual(["2"]);
    expect(consume).toHaveBeenCalledTimes(2);
  });

  it("rejects the frame with UNAVAILABLE, without a strike or a close", async () => {
    const { limiter, calls } = remote(9);
    const { receive, handled, notices, exceeded, errors, closes } = setUp({
      limits: { limiter, key: () => "all" },
      onExceeded: "close",
      closeAfter: 1,
    });
    receive("1", "2");
    await calls[0]?.fail(new Error("gone"));
    await calls[1]?.reply();
    expect(handled).toEqual(["2"]);
    expect(errors.map(String)).toEqual(["Error: gone"]);
    expect(exceeded).toMatchObject([{ type: "rate", observed: 1, limit: 0, key: "all", action: "send" }]);
    expect(notices()).toMatchObject([{ code: "UNAVAILABLE", retryable: true }]);
    expect(closes).toEqual([]);
  });

  it("causes no strike if the limiter fails closed", () => {
    const denied = { allowed: false, limit: 9, remaining: 0, retryAfterMs: 500, unavailable: true, policy: "p" };
    const limiter = Object.assign(few(9), { consumeSync: () => denied as never });
    const { receive, notices, closes } = setUp({ limits: { limiter }, onExceeded: "close", closeAfter: 1 });
    receive("1", "2");
    expect(closes).toEqual([]);
    expect(notices()).toMatchObject([{ code: "UNAVAILABLE", retryable: true, retryAfterMs: 500 }]);
  });

  it("rejects the frame with UNAVAILABLE if the limiter throws synchronously", async () => {
    const limiter = few(1);
    await limiter.dispose();
    const { receive, handled, notices, errors } = setUp({ limits: { limiter } });
    receive("1");
    expect(handled).toEqual([]);
    expect(notices()).toMatchObject([{ code: "UNAVAILABLE" }]);
    expect(errors).toMatchObject([{ code: "disposed" }]);
  });
});
