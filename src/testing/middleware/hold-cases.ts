/** Cases about holds: concurrent requests, costs that are known only afterwards, and blocked clients. */
import { concurrency } from "../../holds/concurrency.ts";
import { penalty } from "../../penalties/penalty.ts";
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, pathOf, slow } from "./case.ts";
import type { Client, TestResponse } from "./client.ts";

/** The lease of the cases. They end before it does. */
const LEASE = "30s";

/** Handlers that wait until another request lets them go. */
export function waitingRoom(): { wait(): Promise<void>; open(): void } {
  let waiting: (() => void)[] = [];
  return {
    wait: () => new Promise((resolve) => waiting.push(resolve)),
    open() {
      for (const resolve of waiting) resolve();
      waiting = [];
    },
  };
}

/** Sends requests until one has the status: a hold is released just after its response. */
export async function untilStatus(client: Client, path: string, status: number): Promise<TestResponse> {
  for (let i = 0; i < 200; i++) {
    const response = await client.send(path);
    if (response.status === status) return response;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${path} never responded with ${status}`);
}

/** Sends requests until `r` of the RateLimit field has a value. `before` is called before each of them. */
export async function untilRemaining(
  client: Client,
  path: string,
  remaining: number,
  before?: () => Promise<unknown>,
): Promise<void> {
  let last: string | null = null;
  for (let i = 0; i < 200; i++) {
    await before?.();
    last = (await client.send(path)).header("RateLimit");
    if (last?.includes(`;r=${remaining}`)) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${path}: RateLimit is ${last}, not r=${remaining}`);
}

/** A route with slots: `/wait` waits until a request to `/open`, which is not counted. */
export function waitingRoute(slots: number, name: string): MiddlewareCase["routes"][string] {
  return ({ limiter }) => {
    const room = waitingRoom();
    return {
      rateLimits: [
        {
          limiter: limiter(concurrency(slots, { leaseMs: LEASE, name })),
          skip: (...args) => pathOf(args).endsWith("/open"),
        },
      ],
      async handle(path) {
        if (path.endsWith("/open")) room.open();
        if (path.endsWith("/wait")) await room.wait();
        return {};
      },
    };
  };
}

export const holdCases: readonly MiddlewareCase[] = [
  {
    title: "limits concurrent requests, and releases one when its response ends",
    routes: {
      inFlight: waitingRoute(2, "in-flight"),
    },
    async drive(client) {
      const { send, until } = client;
      const waiting = [send("/inFlight/wait"), send("/inFlight/wait")];
      await until("inFlight", "two requests in flight", ({ handled }) => handled === 2);
      const denied = await send("/inFlight");
      checkEqual(denied.status, 429, "a third request");
      checkEqual(denied.header("Retry-After"), "1", "Retry-After");
      checkEqual(
        denied.header("RateLimit-Policy"),
        '"in-flight";q=2;qu="concurrent-requests"',
        "RateLimit-Policy without a window",
      );
      checkEqual(denied.header("RateLimit"), '"in-flight";r=0', "RateLimit without a time");
      checkEqual(denied.json().detail, "Limit of 2 concurrent requests reached.", "detail");
      await send("/inFlight/open");
      for (const response of await Promise.all(waiting)) checkEqual(response.status, 200, "a request that waited");
      await untilStatus(client, "/inFlight", 200);
    },
  },
  {
    title: "releases a concurrent request when its handler throws",
    routes: {
      inFlightThrown: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(concurrency(1, { leaseMs: LEASE, name: "thrown" })) }],
        handle(path) {
          if (path.endsWith("/throw")) throw new Error("on purpose");
          return {};
        },
      }),
    },
    async drive(client) {
      check((await client.send("/inFlightThrown/throw")).status >= 500, "a handler that throws");
      await untilStatus(client, "/inFlightThrown", 200);
    },
  },
  {
    title: "releases a concurrent request when its client disconnects",
    routes: {
      inFlightLeft: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(concurrency(1, { leaseMs: LEASE, name: "left" })) }],
        async handle(path, disconnected) {
          if (path.endsWith("/wait")) await disconnected;
          return {};
        },
      }),
    },
    async drive(client) {
      const leaver = new AbortController();
      const left = client.send("/inFlightLeft/wait", { signal: leaver.signal }).catch(() => "left");
      await client.until("inFlightLeft", "the request", ({ handled }) => handled === 1);
      checkEqual((await client.send("/inFlightLeft")).status, 429, "while it is in flight");
      leaver.abort();
      checkEqual(await left, "left", "the client");
      await untilStatus(client, "/inFlightLeft", 200);
    },
  },
  {
    title: "holds an estimate, and charges the cost that the handler reports",
    routes: {
      reported: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(100, "reported")), hold: { estimate: 10 } }],
        handle(path, _disconnected, decision) {
          decision?.settle?.(Number(path.split("/")[2]));
          return {};
        },
      }),
    },
    async drive(client) {
      checkEqual((await client.send("/reported/30")).status, 200, "a request");
      // What is left beside the 10 that the request itself holds.
      await untilRemaining(client, "/reported/0", 60);
      checkEqual((await client.send("/reported/60")).status, 200, "more than its estimate");
      await untilStatus(client, "/reported/0", 200);
      await untilRemaining(client, "/reported/0", 0);
    },
  },
  {
    title: "charges what hold.actual returns, and the estimate without it",
    routes: {
      actual: ({ limiter }) => ({
        rateLimits: [
          {
            limiter: limiter(slow(100, "actual")),
            hold: { estimate: 10, actual: ({ status }) => (status === 200 ? undefined : 0) },
          },
        ],
        handle: (path) => ({ status: Number(path.split("/")[2]) }),
      }),
    },
    async drive(client) {
      for (let i = 0; i < 3; i++) checkEqual((await client.send("/actual/200")).status, 200, "the estimate");
      await untilRemaining(client, "/actual/404", 60);
      await untilRemaining(client, "/actual/404", 60);
    },
  },
  {
    title: "blocks a client that keeps exceeding a limit",
    routes: {
      penalty: ({ limiter }) => ({
        rateLimits: [
          {
            limits: [
              { limiter: limiter(slow(1, "attempts")) },
              {
                limiter: limiter(penalty({ strikes: 2, blockMs: "2d", maxBlockMs: "2d", name: "penalty" })),
              },
            ],
          },
        ],
      }),
    },
    async drive({ statuses, send }) {
      checkEqual(await statuses(2, "/penalty"), [200, 429], "up to the limit");
      const blocked = await send("/penalty");
      checkEqual(blocked.status, 429, "the second violation");
      checkEqual(String(blocked.json().type).split("#")[1], "abnormal-usage-detected", "problem type");
      check(Number(blocked.header("Retry-After")) > 86_400, "Retry-After of the block");
      checkEqual(blocked.header("RateLimit-Policy")?.includes("penalty"), false, "a penalty is in no field");
    },
  },
];
