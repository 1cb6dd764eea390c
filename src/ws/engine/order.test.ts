/** Frames in the order in which they came, whatever a store does meanwhile, and none of them after a close. */
import { createLimiter, leakyBucket, memoryRateLimiter, memoryStore } from "sluice";
import { type Frame, type GuardOptions, jsonType } from "sluice/ws";
import { afterEach, describe, expect, it, vi } from "vitest";
import { clock, type Data, few, perHour, remote, say, setUp } from "../../../test/ws/set-up.ts";

afterEach(() => {
  vi.useRealTimers();
});

describe("order", () => {
  it("is kept when answers of a store are not", async () => {
    const { limiter, asked } = remote(3);
    const { receive, handled, hooks } = setUp({ limits: { limiter }, onExceeded: "custom" });
    receive("1", "2", "3", "4");
    await asked[3]?.answer();
    await asked[1]?.answer();
    expect(handled).toEqual([]);
    expect(hooks).toEqual([]);
    await asked[0]?.answer();
    expect(handled).toEqual(["1", "2"]);
    await asked[2]?.answer();
    expect(handled).toEqual(["1", "2", "3"]);
    expect(hooks).toHaveLength(1);
  });

  it("is kept by what is decided at once while something waits", async () => {
    const { limiter, asked } = remote(3);
    const { receive, handled, hooks } = setUp({
      typeOf: jsonType(),
      types: ["say", "free"],
      heartbeats: ["ping"],
      connection: perHour(2),
      limits: { limiter, cost: ({ type }) => (type === "free" ? 0 : 1) },
      onExceeded: "custom",
    });
    receive(say("say"), say("ping"), say("free"), say("say"));
    expect(handled).toEqual([]);
    // The connection's own bucket has denied the last, which is told in its turn.
    expect(hooks).toEqual([]);
    await asked[0]?.answer();
    expect(handled).toEqual([say("say"), say("ping"), say("free")]);
    expect(hooks).toMatchObject([{ key: "connection:c1" }]);
  });

  it("has the delay of a leaky bucket, also before those that need not wait", async () => {
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

  it("tells what is left of a wait when a denial has waited for its turn", async () => {
    vi.useFakeTimers();
    const limiter = memoryRateLimiter(leakyBucket("1/s", { burst: 2 }), { clock });
    const { receive, notices, hooks, handled } = setUp({ limits: { limiter, key: () => "all" } });
    receive("1", "2", "3");
    await vi.advanceTimersByTimeAsync(600);
    expect([handled, hooks]).toEqual([["1"], []]);
    await vi.advanceTimersByTimeAsync(400);
    expect(handled).toEqual(["1", "2"]);
    // It was denied for one second, which is over.
    expect(hooks).toMatchObject([{ retryAfterMs: 1 }]);
    expect(notices()).toMatchObject([{ retryAfterMs: 1 }]);
  });

  it("has the longer of two delays: that of the connection and that of a limit", async () => {
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

  it("is not lost, nor a timer, when a handler receives another frame", async () => {
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

  it("needs no promise where the store is here, also for several limits", () => {
    const store = memoryStore({ clock });
    const limiterOf = (name: string) => createLimiter({ store, policy: { ...perHour(9), name } });
    for (const limits of [{ limiter: few(9) }, [{ limiter: limiterOf("a") }, { limiter: limiterOf("b") }]]) {
      const { receive, handled } = setUp({ limits });
      receive("1");
      expect(handled).toEqual(["1"]);
    }
  });
});

describe("a function of the application that closes", () => {
  const first = <T>(end: () => void, value: T): T => {
    end();
    return value;
  };

  it.each<[string, (end: () => void) => GuardOptions<Data>]>([
    ["typeOf", (end) => ({ typeOf: () => first(end, "say"), types: ["say"] })],
    ["key", (end) => ({ limits: { limiter: few(9), key: () => first(end, "all") } })],
    ["cost", (end) => ({ limits: { limiter: few(9), cost: () => first(end, 1) } })],
    ["validate", (end) => ({ validate: end })],
  ])("stops the frame: %s", (_, options) => {
    let end = () => {};
    const { receive, handled, told, connection } = setUp(options(() => end()));
    end = () => connection.end();
    receive("1");
    expect([handled, told]).toEqual([[], []]);
  });
});

describe("after a close", () => {
  it("by the application nothing is handled either, also where only the socket knows", async () => {
    const { limiter, asked } = remote(9);
    const first = setUp({ limits: { limiter } });
    first.receive("1");
    first.connection.close(4000, "enough");
    first.connection.close(4000, "again");
    expect(first.closes).toEqual([[4000, "enough"]]);
    const second = setUp({ limits: { limiter } });
    second.receive("1");
    Object.assign(second.peer, { isOpen: false });
    second.receive("2");
    for (const { answer } of asked) await answer();
    expect([first.handled, second.handled, asked.length]).toEqual([[], [], 2]);
    expect(second.connection.closed).toBe(true);
  });

  it("nothing is handled, told or asked", async () => {
    const { limiter, asked } = remote(1);
    const { receive, handled, connection, hooks, told } = setUp({ limits: { limiter } });
    receive("1", "2");
    connection.end();
    for (const { answer } of asked) await answer();
    receive("3");
    expect(connection.ping()).toBe(false);
    expect(connection.closed).toBe(true);
    expect({ handled, hooks, told, asked: asked.length }).toEqual({ handled: [], hooks: [], told: [], asked: 2 });
  });

  it("frames that came before are handled, those after are not", async () => {
    const { limiter, asked } = remote(2);
    const { receive, handled, closes, hooks } = setUp({ limits: { limiter }, onExceeded: "close" });
    receive("1", "2", "3", "4");
    for (const { answer } of asked) await answer();
    expect(handled).toEqual(["1", "2"]);
    expect(hooks).toHaveLength(1);
    expect(closes).toEqual([[1013, '{"limit":"rate","retryAfterMs":3600000}']]);
  });
});

describe("a store that fails", () => {
  it.each([undefined, null, "nonsense", {}])("blocks nobody when it answers %s", async (answer) => {
    const { limiter, asked } = remote(9);
    const consume = vi.spyOn(limiter, "consume").mockResolvedValueOnce(answer as never);
    const { receive, handled } = setUp({ limits: { limiter } });
    receive("1", "2");
    await asked[0]?.answer();
    await new Promise((resolve) => setTimeout(resolve));
    expect(handled).toEqual(["2"]);
    expect(consume).toHaveBeenCalledTimes(2);
  });

  it("denies a frame for which it throws, without blame: UNAVAILABLE, no strike, no close", async () => {
    const { limiter, asked } = remote(9);
    const { receive, handled, notices, hooks, errors, closes } = setUp({
      limits: { limiter, key: () => "all" },
      onExceeded: "close",
      closeAfter: 1,
    });
    receive("1", "2");
    await asked[0]?.fail(new Error("gone"));
    await asked[1]?.answer();
    expect(handled).toEqual(["2"]);
    expect(errors.map(String)).toEqual(["Error: gone"]);
    expect(hooks).toMatchObject([{ type: "rate", observed: 1, limit: 0, key: "all", action: "send" }]);
    expect(notices()).toMatchObject([{ code: "UNAVAILABLE", retryable: true }]);
    expect(closes).toEqual([]);
  });

  it("is nobody's strike where the limiter refuses for it", () => {
    const denied = { allowed: false, limit: 9, remaining: 0, retryAfterMs: 500, unavailable: true, policy: "p" };
    const limiter = Object.assign(few(9), { consumeSync: () => denied as never });
    const { receive, notices, closes } = setUp({ limits: { limiter }, onExceeded: "close", closeAfter: 1 });
    receive("1", "2");
    expect(closes).toEqual([]);
    expect(notices()).toMatchObject([{ code: "UNAVAILABLE", retryable: true, retryAfterMs: 500 }]);
  });

  it("does the same for a limiter that throws at once", async () => {
    const limiter = few(1);
    await limiter.dispose();
    const { receive, handled, notices, errors } = setUp({ limits: { limiter } });
    receive("1");
    expect(handled).toEqual([]);
    expect(notices()).toMatchObject([{ code: "UNAVAILABLE" }]);
    expect(errors).toMatchObject([{ code: "disposed" }]);
  });
});
