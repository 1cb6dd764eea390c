/** Mutants of `idempotent`, each with a bug that real libraries had: the check that covers it has to fail, by its name. */
import type { FetchIdempotencyOptions } from "sluice/fetch";
import type { IdempotencyStore } from "sluice/idempotency";
import { idempotent, type NodeHandler, type NodeIdempotencyOptions, rateLimit } from "sluice/node";
import { guardedRoutes, middlewareSuite } from "sluice/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as steps from "../../src/idempotency/entry.ts";
import { failuresOf } from "../collect.ts";
import { listen, nodeKit, nodeListener } from "../middleware/mount.ts";
import { serverOf } from "./payment-server.ts";
import { type Mutation, toyStore } from "./toy-store.ts";

/** A middleware with one bug. */
interface Mutant {
  readonly options?: Partial<FetchIdempotencyOptions>;
  /** A bug of the store. */
  readonly mutation?: Mutation;
  readonly store?: (inner: IdempotencyStore) => Partial<IdempotencyStore>;
}

const clock = { now: () => Date.now() };

function mutantServer({ options = {}, mutation = {}, store: change = () => ({}) }: Mutant) {
  const inner = toyStore(clock, mutation);
  const store: IdempotencyStore = {
    begin: (claim) => inner.begin(claim),
    read: (...args) => inner.read(...args),
    renew: (...args) => inner.renew(...args),
    complete: (...args) => inner.complete(...args),
    release: (...args) => inner.release(...args),
    ...change(inner),
  };
  return serverOf({ store, ...options });
}

type Server = ReturnType<typeof mutantServer>;

const isReplay = (response: Response) => response.headers.has("Idempotent-Replayed");

/** What `idempotent` promises. */
const checks: Record<string, (server: Server) => Promise<void>> = {
  "sends the end of a response once it is stored": async ({ run, runs }) => {
    await run();
    const [first, again] = [runs.length, await run()];
    expect([first, isReplay(again), runs.length]).toEqual([1, true, 1]);
  },
  "never replays the response of another scope": async ({ run, runs }) => {
    for (const user of ["ada", "bob"]) await run({ user });
    expect(runs).toHaveLength(2);
  },
  "stores the response of the owner only, after another request has taken over": async ({ send, run, runs }) => {
    const first = send();
    await vi.advanceTimersByTimeAsync(0);
    vi.setSystemTime(Date.now() + 31_000);
    const second = send();
    await vi.advanceTimersByTimeAsync(0);
    runs[0]?.finish();
    await vi.advanceTimersByTimeAsync(5);
    expect((await run()).status).toBe(409);
    runs[1]?.finish();
    await Promise.all([first, second]);
    expect(await (await run()).text()).toBe("run 2");
  },
  "runs a request again after the lease of a process that died": async ({ send, runs }) => {
    void send();
    await vi.advanceTimersByTimeAsync(0);
    // Timers of a dead process don't fire.
    vi.setSystemTime(Date.now() + 31_000);
    void send();
    await vi.advanceTimersByTimeAsync(0);
    expect(runs.map(({ attempt }) => attempt)).toEqual([1, 2]);
  },
  "renews the lease while the handler runs": async ({ send, runs }) => {
    void send();
    await vi.advanceTimersByTimeAsync(100_000);
    void send();
    await vi.advanceTimersByTimeAsync(5);
    expect(runs).toHaveLength(1);
  },
  "never replays a 429": async ({ run, runs }) => {
    await run({}, new Response("later", { status: 429 }));
    expect(isReplay(await run())).toBe(false);
    expect(runs).toHaveLength(2);
  },
  "rejects another payload": async ({ run }) => {
    await run();
    expect((await run({ body: "101" })).status).toBe(422);
  },
};

const mutants: [name: string, fails: string, mutant: Mutant][] = [
  [
    "stores a response after it was sent",
    "sends the end of a response once it is stored",
    {
      store: (inner) => ({
        async complete(...args) {
          setTimeout(() => inner.complete(...args), 1000);
          return true;
        },
      }),
    },
  ],
  [
    "uses keys without their scope",
    "never replays the response of another scope",
    { options: { scope: () => "everyone" } },
  ],
  [
    "does not check the owner of a response",
    "stores the response of the owner only, after another request has taken over",
    {
      mutation: {
        complete: (entry, owner, response, ttlMs) =>
          steps.complete(entry && { ...entry, owner }, owner, response, ttlMs),
      },
    },
  ],
  [
    "does not check the owner of a release",
    "stores the response of the owner only, after another request has taken over",
    {
      // An owner that has lost its lease releases the claim of the next one.
      mutation: { release: (entry, owner) => steps.release(entry && { ...entry, owner }, owner) },
      store: (inner) => ({
        async complete(key, owner, response, ttlMs) {
          const isStored = await inner.complete(key, owner, response, ttlMs);
          if (!isStored) await inner.release(key, owner);
          return isStored;
        },
      }),
    },
  ],
  [
    "has no lease",
    "runs a request again after the lease of a process that died",
    {
      mutation: {
        begin: (entry, claim, now) =>
          steps.begin(entry?.kind === "claim" ? { ...entry, leaseEndsAt: now + 1 } : entry, claim, now),
      },
    },
  ],
  [
    "does not renew the lease",
    "renews the lease while the handler runs",
    { store: () => ({ renew: async () => true }) },
  ],
  ["stores every status", "never replays a 429", { options: { shouldStore: () => true } }],
  ["ignores the payload", "rejects another payload", { options: { fingerprint: () => "same" } }],
];

describe("idempotent", () => {
  beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
  afterEach(() => void vi.useRealTimers());

  const failing = async (mutant: Mutant): Promise<string[]> => {
    const failed: string[] = [];
    for (const [title, check] of Object.entries(checks)) {
      await check(mutantServer(mutant)).catch(() => failed.push(title));
    }
    return failed;
  };

  it("passes every check", async () => expect(await failing({})).toEqual([]));

  it.each(mutants)("is caught if it %s: %s", async (_name, fails, mutant) => {
    expect(await failing(mutant)).toContain(fails);
  });
});

type Wrap = (options: NodeIdempotencyOptions) => (handler: NodeHandler) => NodeHandler;

const changed =
  (change: (options: NodeIdempotencyOptions) => Partial<NodeIdempotencyOptions>): Wrap =>
  (options) =>
    idempotent({ ...options, ...change(options) });

const storingLater = changed(({ store }) => ({
  store: {
    begin: (claim) => store.begin(claim),
    read: (...args) => store.read(...args),
    renew: (...args) => store.renew(...args),
    release: (...args) => store.release(...args),
    async complete(...args) {
      setTimeout(() => store.complete(...args), 500);
      return true;
    },
  },
}));

/** Bugs that a client of the server sees. */
const suiteMutants: [name: string, fails: string, wrap: Wrap][] = [
  ["does nothing", "runs a request with an idempotency key once", () => (handler) => handler],
  ["captures no response", "captures a response", () => (handler) => handler],
  ["stores a response after it was sent", "runs a request with an idempotency key once", storingLater],
  ["sends a response before it is stored", "captures a response", storingLater],
  [
    "uses keys without their scope",
    "separates the idempotency keys of two users",
    changed(() => ({ scope: () => "all" })),
  ],
  ["ignores the payload", "rejects another payload", changed(() => ({ fingerprint: () => "same" }))],
  ["stores every status", "stores no response that means try again", changed(() => ({ shouldStore: () => true }))],
  ["stores no error", "replays the bytes of a response", changed(() => ({ shouldStore: (status) => status < 400 }))],
  [
    "cuts bodies",
    "does not run a request again whose response was too long",
    changed(() => ({ maxBodyBytes: 2 ** 20 })),
  ],
  ["does not wait", "or waits for it", changed(() => ({ wait: 0 }))],
  ["does not limit replays", "limits the replays of each scope", changed(() => ({ replayLimit: "1000000/s" }))],
  ["does not report warnings", "warns once if idempotent is mounted behind", changed(() => ({ onEvent() {} }))],
];

describe("middlewareSuite", () => {
  it.each(suiteMutants)("catches an idempotent that %s: %s", async (_name, fails, wrap) => {
    const failures = await failuresOf((runner) => {
      middlewareSuite(
        "mutant",
        { start: () => listen(nodeListener(guardedRoutes(nodeKit), rateLimit, wrap)) },
        {
          describe: runner.describe,
          it: (title, body) => {
            if (["starts", "stops"].includes(title) || title.includes(fails)) runner.it(title, body);
          },
        },
      );
    });
    expect(failures.join("\n")).toContain(fails);
  });
});
