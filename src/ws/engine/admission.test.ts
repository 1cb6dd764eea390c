/** Admission: connection counts, upgrade limits, and the responses to rejected clients. */
import { createLimiter, memoryRateLimiter } from "sluice";
import { type AdmissionResult, createGuard, type GuardOptions, type LimitExceeded } from "sluice/ws";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { flakyStore } from "../../../test/flaky-store.ts";

interface Data {
  userId?: string;
  tenantId?: string;
}

function setUp(options: GuardOptions<Data>) {
  const exceeded: LimitExceeded[] = [];
  const errors: unknown[] = [];
  const guard = createGuard<Data>({
    onLimitExceeded: (info) => exceeded.push(info),
    onError: (error) => errors.push(error),
    ...options,
  });
  const connect = (peer: string | undefined, data?: Data, headers = {}) => guard.admit({ peer, headers }, data);
  return { connect, exceeded, errors };
}

const expectAllowed = (admission: AdmissionResult) => {
  if (!admission.allowed) throw new Error(`rejected: ${admission.response.body}`);
  return admission;
};

describe("admission", () => {
  it("admits every client by default, and returns its IP address", async () => {
    const { connect } = setUp({});
    expect(await connect("::ffff:192.0.2.7")).toMatchObject({ allowed: true, ip: "192.0.2.7" });
    expect(await connect(undefined)).toMatchObject({ allowed: true, ip: undefined });
  });

  it("counts open connections, and releases each once", async () => {
    const { connect, exceeded } = setUp({ maxOpenPerAddress: 2 });
    const first = expectAllowed(await connect("192.0.2.7"));
    expectAllowed(await connect("192.0.2.7"));
    expectAllowed(await connect("192.0.2.8"));
    const rejected = await connect("192.0.2.7");
    expect(rejected).toMatchObject({ allowed: false, response: { status: 429 } });
    expect(exceeded).toEqual([
      { type: "connections", observed: 3, limit: 2, id: "", key: "ip:192.0.2.7", action: "close" },
    ]);
    first.release();
    first.release();
    expectAllowed(await connect("192.0.2.7"));
    expect((await connect("192.0.2.7")).allowed).toBe(false);
  });

  it("counts users per tenant, and does not count anonymous clients", async () => {
    const { connect } = setUp({ maxOpenPerUser: 1 });
    expectAllowed(await connect("192.0.2.7", { userId: "ann" }));
    expect((await connect("192.0.2.8", { userId: "ann" })).allowed).toBe(false);
    expectAllowed(await connect("192.0.2.7", { userId: "ann", tenantId: "acme" }));
    expectAllowed(await connect("192.0.2.7"));
    expectAllowed(await connect("192.0.2.7", {}));
  });

  it("does not count a connection under the address if the user is at the limit", async () => {
    const { connect } = setUp({ maxOpenPerAddress: 9, maxOpenPerUser: 1 });
    const ann = expectAllowed(await connect("192.0.2.7", { userId: "ann" }));
    for (let n = 0; n < 20; n++) expect((await connect("192.0.2.7", { userId: "ann" })).allowed).toBe(false);
    for (let n = 0; n < 8; n++) expectAllowed(await connect("192.0.2.7"));
    expect((await connect("192.0.2.7")).allowed).toBe(false);
    ann.release();
    expectAllowed(await connect("192.0.2.7", { userId: "ann" }));
  });

  it("limits upgrades per address with an HTTP 429, and does not count rejected ones as open", async () => {
    const upgrades = memoryRateLimiter({ capacity: 2, tokensPerSecond: "1/m", name: "upgrades" });
    const { connect, exceeded } = setUp({ upgrades, maxOpenPerAddress: 2 });
    for (let n = 0; n < 2; n++) expectAllowed(await connect("192.0.2.7")).release();
    const rejected = await connect("192.0.2.7");
    if (rejected.allowed) throw new Error("allowed");
    expect(rejected.response).toMatchObject({ status: 429, headers: { "Retry-After": "60" } });
    expect(JSON.parse(rejected.response.body)).toMatchObject({ "violated-policies": ["upgrades"] });
    expect(exceeded).toMatchObject([{ type: "connections", observed: 1, limit: 2, key: "ip:192.0.2.7" }]);
    expect(exceeded[0]?.retryAfterMs).toBeGreaterThan(59_000);
  });

  it("accepts a ws-kit limiter, whose policy has only a capacity and a rate", async () => {
    const inner = memoryRateLimiter("1/h");
    const upgrades = Object.assign(Object.create(inner), {
      consume: (key: string) => inner.consume(key),
      getPolicy: () => ({ capacity: 1, tokensPerSecond: 1 / 3600 }),
    });
    const { connect } = setUp({ upgrades });
    expectAllowed(await connect("192.0.2.7"));
    expect(await connect("192.0.2.7")).toMatchObject({ allowed: false, response: { status: 429 } });
  });

  it("holds the limit for concurrent upgrades", async () => {
    const { connect } = setUp({
      maxOpenPerAddress: 5,
      upgrades: memoryRateLimiter({ capacity: 1000, tokensPerSecond: 1 }),
    });
    const all = await Promise.all(Array.from({ length: 50 }, () => connect("192.0.2.7")));
    expect(all.filter(({ allowed }) => allowed)).toHaveLength(5);
  });

  it("calls data only if the address may connect", async () => {
    const upgrades = memoryRateLimiter({ capacity: 2, tokensPerSecond: "1/h" });
    const guard = createGuard<Data>({ upgrades, maxOpenPerAddress: 5, maxOpenPerUser: 1 });
    const request = { peer: "192.0.2.7", headers: {} };
    const data = vi.fn(async () => ({ userId: "ann" }));
    expect(await guard.admit(request, data)).toMatchObject({ allowed: true, data: { userId: "ann" } });
    // The user has reached the limit, and the count of the address is given back.
    expect((await guard.admit(request, data)).allowed).toBe(false);
    expect((await guard.admit(request, data)).allowed).toBe(false);
    expect(data).toHaveBeenCalledTimes(2);
  });

  it("releases the counts if data rejects", async () => {
    const { exceeded, errors } = setUp({});
    const guard = createGuard<Data>({ maxOpenPerAddress: 1, onError: (error) => errors.push(error) });
    const request = { peer: "192.0.2.7", headers: {} };
    const failing = () => Promise.reject(new Error("no session"));
    for (let n = 0; n < 3; n++)
      expect(await guard.admit(request, failing)).toMatchObject({ response: { status: 500 } });
    expect((await guard.admit(request)).allowed).toBe(true);
    expect([exceeded, errors.length]).toEqual([[], 3]);
  });

  it("keeps the count of a client that disconnects until data has settled, which limits pending work", async () => {
    const guard = createGuard<Data>({ maxOpenPerAddress: 1, maxOpenPerUser: 1 });
    const request = { peer: "192.0.2.7", headers: {} };
    let known = (_: Data): void => {};
    const session = new Promise<Data>((resolve) => {
      known = resolve;
    });
    let leave = () => {};
    const first = guard.admit(
      request,
      () => session,
      (release) => {
        leave = release;
      },
    );
    for (let n = 0; n < 10; n++) await Promise.resolve();
    leave();
    expect((await guard.admit(request)).allowed).toBe(false);
    known({ userId: "ann" });
    expect((await first).allowed).toBe(false);
    expectAllowed(await guard.admit(request, { userId: "ann" })).release();
    expectAllowed(await guard.admit(request, { userId: "ann" }));
  });

  it("does not call data for a client that has already disconnected", async () => {
    const upgrades = memoryRateLimiter({ capacity: 9, tokensPerSecond: "1/h" });
    const guard = createGuard<Data>({ maxOpenPerAddress: 1, upgrades });
    const request = { peer: "192.0.2.7", headers: {} };
    const data = vi.fn();
    expect((await guard.admit(request, data, (release) => release())).allowed).toBe(false);
    expect(data).not.toHaveBeenCalled();
    expectAllowed(await guard.admit(request, data));
  });

  it("rejects a connection if data takes longer than 10 seconds", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const errors: unknown[] = [];
    const guard = createGuard<Data>({ maxOpenPerAddress: 1, onError: (error) => errors.push(error) });
    const request = { peer: "192.0.2.7", headers: {} };
    const never = guard.admit(request, () => new Promise(() => {}));
    await vi.advanceTimersByTimeAsync(9999);
    expect((await guard.admit(request)).allowed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(await never).toMatchObject({ response: { status: 500 } });
    expect(errors).toMatchObject([{ code: "unidentified", option: "data" }]);
    expectAllowed(await guard.admit(request));
    expect(vi.getTimerCount()).toBe(0);
  });

  it("releases the count of an address whose upgrade is denied", async () => {
    const upgrades = memoryRateLimiter({ capacity: 1, tokensPerSecond: "1/h" });
    const { connect } = setUp({ upgrades, maxOpenPerAddress: 2 });
    expectAllowed(await connect("192.0.2.7"));
    for (let n = 0; n < 5; n++) await connect("192.0.2.7");
    await upgrades.reset("ip:192.0.2.7");
    expectAllowed(await connect("192.0.2.7"));
  });

  it("counts IPv6 addresses by network", async () => {
    const { connect } = setUp({ maxOpenPerAddress: 1 });
    expectAllowed(await connect("2001:db8::1"));
    expect((await connect("2001:db8::ffff")).allowed).toBe(false);
    expectAllowed(await connect("2001:db8:0:100::1"));
  });

  it("rejects a client without an IP address, and reports it to onError", async () => {
    for (const options of [
      { maxOpenPerAddress: 1 },
      { upgrades: memoryRateLimiter({ capacity: 1, tokensPerSecond: 1 }) },
    ]) {
      const { connect, errors, exceeded } = setUp(options);
      expect(await connect(undefined)).toMatchObject({ allowed: false, response: { status: 500 } });
      expect(errors).toMatchObject([{ code: "unidentified" }]);
      expect(exceeded).toEqual([]);
    }
  });

  it("releases the count if the limiter throws", async () => {
    const upgrades = memoryRateLimiter({ capacity: 9, tokensPerSecond: 1 });
    vi.spyOn(upgrades, "consume").mockRejectedValueOnce(new Error("gone"));
    const { connect, errors } = setUp({ upgrades, maxOpenPerAddress: 1 });
    expect(await connect("192.0.2.7")).toMatchObject({ allowed: false, response: { status: 500 } });
    expect(errors).toEqual([new Error("gone")]);
    expectAllowed(await connect("192.0.2.7"));
  });

  it("responds with 503 if the store is unavailable and fails closed", async () => {
    const store = flakyStore();
    const policy = { capacity: 9, tokensPerSecond: 1 };
    const upgrades = createLimiter({ policy, store, onStoreError: "closed" });
    store.mode = "fail";
    const { connect } = setUp({ upgrades });
    expect(await connect("192.0.2.7")).toMatchObject({ allowed: false, response: { status: 503 } });
  });
});
