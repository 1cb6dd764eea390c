/** Who may connect: counts that are given back once, and refusals that say why. */
import { createLimiter, memoryRateLimiter } from "sluice";
import { type Admission, createGuard, type GuardOptions, type LimitExceeded } from "sluice/ws";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { flakyStore } from "../../../test/flaky-store.ts";

interface Data {
  userId?: string;
  tenantId?: string;
}

function setUp(options: GuardOptions<Data>) {
  const hooks: LimitExceeded[] = [];
  const errors: unknown[] = [];
  const guard = createGuard<Data>({
    onLimitExceeded: (info) => hooks.push(info),
    onError: (error) => errors.push(error),
    ...options,
  });
  const come = (peer: string | undefined, data?: Data, headers = {}) => guard.admit({ peer, headers }, data);
  return { come, hooks, errors };
}

const enter = (admission: Admission) => {
  if (!admission.allowed) throw new Error(`refused: ${admission.answer.body}`);
  return admission;
};

describe("admission", () => {
  it("lets everybody in unless told otherwise, and tells the address", async () => {
    const { come } = setUp({});
    expect(await come("::ffff:192.0.2.7")).toMatchObject({ allowed: true, ip: "192.0.2.7" });
    expect(await come(undefined)).toMatchObject({ allowed: true, ip: undefined });
  });

  it("counts what is open, and gives each back once", async () => {
    const { come, hooks } = setUp({ maxOpenPerAddress: 2 });
    const first = enter(await come("192.0.2.7"));
    enter(await come("192.0.2.7"));
    enter(await come("192.0.2.8"));
    const refused = await come("192.0.2.7");
    expect(refused).toMatchObject({ allowed: false, answer: { status: 429 } });
    expect(hooks).toEqual([
      { type: "connections", observed: 3, limit: 2, id: "", key: "ip:192.0.2.7", action: "close" },
    ]);
    first.release();
    first.release();
    enter(await come("192.0.2.7"));
    expect((await come("192.0.2.7")).allowed).toBe(false);
  });

  it("counts users with their tenants, and nobody who is not known", async () => {
    const { come } = setUp({ maxOpenPerUser: 1 });
    enter(await come("192.0.2.7", { userId: "ann" }));
    expect((await come("192.0.2.8", { userId: "ann" })).allowed).toBe(false);
    enter(await come("192.0.2.7", { userId: "ann", tenantId: "acme" }));
    enter(await come("192.0.2.7"));
    enter(await come("192.0.2.7", {}));
  });

  it("takes no count where another is full", async () => {
    const { come } = setUp({ maxOpenPerAddress: 9, maxOpenPerUser: 1 });
    const ann = enter(await come("192.0.2.7", { userId: "ann" }));
    for (let n = 0; n < 20; n++) expect((await come("192.0.2.7", { userId: "ann" })).allowed).toBe(false);
    for (let n = 0; n < 8; n++) enter(await come("192.0.2.7"));
    expect((await come("192.0.2.7")).allowed).toBe(false);
    ann.release();
    enter(await come("192.0.2.7", { userId: "ann" }));
  });

  it("limits how often an address connects, in the words of HTTP, and counts nobody who is refused", async () => {
    const upgrades = memoryRateLimiter({ capacity: 2, tokensPerSecond: "1/m", name: "upgrades" });
    const { come, hooks } = setUp({ upgrades, maxOpenPerAddress: 2 });
    for (let n = 0; n < 2; n++) enter(await come("192.0.2.7")).release();
    const refused = await come("192.0.2.7");
    if (refused.allowed) throw new Error("let in");
    expect(refused.answer).toMatchObject({ status: 429, headers: { "Retry-After": "60" } });
    expect(JSON.parse(refused.answer.body)).toMatchObject({ "violated-policies": ["upgrades"] });
    expect(hooks).toMatchObject([{ type: "connections", observed: 1, limit: 2, key: "ip:192.0.2.7" }]);
    expect(hooks[0]?.retryAfterMs).toBeGreaterThan(59_000);
  });

  it("accepts a limiter that tells only capacity and rate of its policy, as ws-kit's do", async () => {
    const inner = memoryRateLimiter("1/h");
    const upgrades = Object.assign(Object.create(inner), {
      consume: (key: string) => inner.consume(key),
      getPolicy: () => ({ capacity: 1, tokensPerSecond: 1 / 3600 }),
    });
    const { come } = setUp({ upgrades });
    enter(await come("192.0.2.7"));
    expect(await come("192.0.2.7")).toMatchObject({ allowed: false, answer: { status: 429 } });
  });

  it("is not fooled by many at once", async () => {
    const { come } = setUp({
      maxOpenPerAddress: 5,
      upgrades: memoryRateLimiter({ capacity: 1000, tokensPerSecond: 1 }),
    });
    const all = await Promise.all(Array.from({ length: 50 }, () => come("192.0.2.7")));
    expect(all.filter(({ allowed }) => allowed)).toHaveLength(5);
  });

  it("asks who somebody is only when the address may connect", async () => {
    const upgrades = memoryRateLimiter({ capacity: 2, tokensPerSecond: "1/h" });
    const guard = createGuard<Data>({ upgrades, maxOpenPerAddress: 5, maxOpenPerUser: 1 });
    const facts = { peer: "192.0.2.7", headers: {} };
    const data = vi.fn(async () => ({ userId: "ann" }));
    expect(await guard.admit(facts, data)).toMatchObject({ allowed: true, data: { userId: "ann" } });
    // The user has none left, and the address gets its place back.
    expect((await guard.admit(facts, data)).allowed).toBe(false);
    expect((await guard.admit(facts, data)).allowed).toBe(false);
    expect(data).toHaveBeenCalledTimes(2);
  });

  it("gives places back when it can't be told who somebody is", async () => {
    const { hooks, errors } = setUp({});
    const guard = createGuard<Data>({ maxOpenPerAddress: 1, onError: (error) => errors.push(error) });
    const facts = { peer: "192.0.2.7", headers: {} };
    const failing = () => Promise.reject(new Error("no session"));
    for (let n = 0; n < 3; n++) expect(await guard.admit(facts, failing)).toMatchObject({ answer: { status: 500 } });
    expect((await guard.admit(facts)).allowed).toBe(true);
    expect([hooks, errors.length]).toEqual([[], 3]);
  });

  it("keeps the place of a client that leaves until it is known who that was, which is a bound on the work", async () => {
    const guard = createGuard<Data>({ maxOpenPerAddress: 1, maxOpenPerUser: 1 });
    const facts = { peer: "192.0.2.7", headers: {} };
    let known = (_: Data): void => {};
    const session = new Promise<Data>((resolve) => {
      known = resolve;
    });
    let leave = () => {};
    const first = guard.admit(
      facts,
      () => session,
      (release) => {
        leave = release;
      },
    );
    for (let n = 0; n < 10; n++) await Promise.resolve();
    leave();
    expect((await guard.admit(facts)).allowed).toBe(false);
    known({ userId: "ann" });
    expect((await first).allowed).toBe(false);
    enter(await guard.admit(facts, { userId: "ann" })).release();
    enter(await guard.admit(facts, { userId: "ann" }));
  });

  it("asks nobody about a client that has left already", async () => {
    const upgrades = memoryRateLimiter({ capacity: 9, tokensPerSecond: "1/h" });
    const guard = createGuard<Data>({ maxOpenPerAddress: 1, upgrades });
    const facts = { peer: "192.0.2.7", headers: {} };
    const data = vi.fn();
    expect((await guard.admit(facts, data, (release) => release())).allowed).toBe(false);
    expect(data).not.toHaveBeenCalled();
    enter(await guard.admit(facts, data));
  });

  it("does not wait for ever for who somebody is", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const errors: unknown[] = [];
    const guard = createGuard<Data>({ maxOpenPerAddress: 1, onError: (error) => errors.push(error) });
    const facts = { peer: "192.0.2.7", headers: {} };
    const never = guard.admit(facts, () => new Promise(() => {}));
    await vi.advanceTimersByTimeAsync(9999);
    expect((await guard.admit(facts)).allowed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(await never).toMatchObject({ answer: { status: 500 } });
    expect(errors).toMatchObject([{ code: "unidentified", option: "data" }]);
    enter(await guard.admit(facts));
    expect(vi.getTimerCount()).toBe(0);
  });

  it("gives the place of an address back that connects too often", async () => {
    const upgrades = memoryRateLimiter({ capacity: 1, tokensPerSecond: "1/h" });
    const { come } = setUp({ upgrades, maxOpenPerAddress: 2 });
    enter(await come("192.0.2.7"));
    for (let n = 0; n < 5; n++) await come("192.0.2.7");
    await upgrades.reset("ip:192.0.2.7");
    enter(await come("192.0.2.7"));
  });

  it("counts IPv6 by the network of a client", async () => {
    const { come } = setUp({ maxOpenPerAddress: 1 });
    enter(await come("2001:db8::1"));
    expect((await come("2001:db8::ffff")).allowed).toBe(false);
    enter(await come("2001:db8:0:100::1"));
  });

  it("refuses whom it can't count, and says so to the operator", async () => {
    for (const options of [
      { maxOpenPerAddress: 1 },
      { upgrades: memoryRateLimiter({ capacity: 1, tokensPerSecond: 1 }) },
    ]) {
      const { come, errors, hooks } = setUp(options);
      expect(await come(undefined)).toMatchObject({ allowed: false, answer: { status: 500 } });
      expect(errors).toMatchObject([{ code: "unidentified" }]);
      expect(hooks).toEqual([]);
    }
  });

  it("gives a count back when the limiter throws", async () => {
    const upgrades = memoryRateLimiter({ capacity: 9, tokensPerSecond: 1 });
    vi.spyOn(upgrades, "consume").mockRejectedValueOnce(new Error("gone"));
    const { come, errors } = setUp({ upgrades, maxOpenPerAddress: 1 });
    expect(await come("192.0.2.7")).toMatchObject({ allowed: false, answer: { status: 500 } });
    expect(errors).toEqual([new Error("gone")]);
    enter(await come("192.0.2.7"));
  });

  it("answers 503 where the store can't be asked and that is to be refused", async () => {
    const store = flakyStore();
    const policy = { capacity: 9, tokensPerSecond: 1 };
    const upgrades = createLimiter({ policy, store, onStoreError: "closed" });
    store.mode = "fail";
    const { come } = setUp({ upgrades });
    expect(await come("192.0.2.7")).toMatchObject({ allowed: false, answer: { status: 503 } });
  });
});
