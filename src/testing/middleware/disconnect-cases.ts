/** Cases about clients that disconnect: what they hold, what they pay, and what is stored for them. */
import { concurrency } from "../../holds/concurrency.ts";
import type { IdempotencyStore } from "../../idempotency/idempotency-store.ts";
import { memoryIdempotencyStore } from "../../idempotency/memory-store.ts";
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, pathOf, slow, times } from "./case.ts";
import type { Client } from "./client.ts";
import { untilRemaining, untilStatus, waitingRoom, waitingRoute } from "./hold-cases.ts";
import { isReplay, pay } from "./idempotency-cases.ts";

/** The lease of the cases. They end before it does. */
const LEASE = "30s";

/** Handlers of a route that wait in two steps: for a disconnect, and then until another request lets them go. */
function leaving() {
  const room = waitingRoom();
  let left = 0;
  return {
    /** Requests that are not counted, by the end of their path. */
    isControl: (path: string) => /\/(?:open|left)$/.test(path),
    /** Answers a request of the test; `undefined` for any other. */
    control(path: string) {
      if (path.endsWith("/left")) return { body: `${left}` };
      if (!path.endsWith("/open")) return undefined;
      room.open();
      return {};
    },
    async wait(disconnected: PromiseLike<unknown> | undefined) {
      await disconnected;
      left++;
      await room.wait();
    },
  };
}

/** Sends a request, and disconnects while its handler waits. Resolves when the handler has noticed. */
async function leave(client: Client, name: string): Promise<void> {
  const leaver = new AbortController();
  const left = client.send(`/${name}/wait`, { signal: leaver.signal }).catch(() => "left");
  await client.until(name, "the request", ({ handled }) => handled > 0);
  leaver.abort();
  checkEqual(await left, "left", "the client");
  for (let i = 0; (await client.send(`/${name}/left`)).text !== "1"; i++) {
    check(i < 200, "the handler was not notified of the disconnect");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export const disconnectCases: readonly MiddlewareCase[] = [
  {
    title: "releases the slots of pipelined requests whose client disconnects",
    routes: {
      pipelined: waitingRoute(4, "pipelined"),
    },
    async drive(client) {
      const disconnect = await client.write(...times(3, { path: "/pipelined/wait" }));
      await client.until("pipelined", "the first request", ({ handled }) => handled > 0);
      disconnect();
      // Servers that don't handle pipelined requests at the same time start the next one when the first has ended.
      await untilRemaining(client, "/pipelined", 3, () => client.send("/pipelined/open"));
    },
  },
  unreadCase("releases the slot of a client that disconnects while nobody reads its request", "unread"),
  unreadCase("releases the slot of such a client also if its response has begun", "unreadStream"),
  {
    title: "keeps the slot of a client that has disconnected until its handler ends",
    routes: {
      working: ({ limiter }) => {
        const { isControl, control, wait } = leaving();
        return {
          rateLimits: [
            {
              limiter: limiter(concurrency(1, { leaseMs: LEASE, name: "working" })),
              skip: (...args) => isControl(pathOf(args)),
            },
          ],
          async handle(path, disconnected) {
            if (path.endsWith("/wait")) await wait(disconnected);
            return control(path) ?? {};
          },
        };
      },
    },
    async drive(client) {
      await leave(client, "working");
      checkEqual(await client.statuses(3, "/working"), [429, 429, 429], "while its handler works");
      await client.send("/working/open");
      await untilStatus(client, "/working", 200);
    },
  },
  {
    title: "charges the cost that a handler reports after its client has disconnected",
    routes: {
      lateCost: ({ limiter }) => {
        const { isControl, control, wait } = leaving();
        return {
          rateLimits: [
            {
              limiter: limiter(slow(100, "late-cost")),
              hold: { estimate: 10 },
              skip: (...args) => isControl(pathOf(args)),
            },
          ],
          async handle(path, disconnected, decision) {
            if (path.endsWith("/wait")) await wait(disconnected);
            decision?.settle?.(path.endsWith("/wait") ? 40 : 0);
            return control(path) ?? {};
          },
        };
      },
    },
    async drive(client) {
      await leave(client, "lateCost");
      await client.send("/lateCost/open");
      // What is left beside the 10 that the request itself holds.
      await untilRemaining(client, "/lateCost", 50);
    },
  },
  {
    title: "stores nothing for a client that disconnects before its request runs",
    routes: {
      leftEarly: ({ limiter, kit }) => {
        const room = waitingRoom();
        const store = kit.idempotencyStore?.() ?? memoryIdempotencyStore();
        let asked = 0;
        return {
          idempotency: {
            store: slowStore(store, async () => {
              if (asked++ === 0) await room.wait();
            }),
          },
          rateLimits: [{ limiter: limiter(slow(1000, "left-early")) }],
          handle(path) {
            if (path.endsWith("/open")) room.open();
            return { body: path.endsWith("/asked") ? `${asked}` : "paid" };
          },
        };
      },
    },
    async drive(client) {
      const disconnect = await client.write({
        method: "POST",
        path: "/leftEarly",
        headers: { "X-User": "ada", "Idempotency-Key": "once", "Content-Type": "application/json" },
        body: JSON.stringify({ amount: 100 }),
      });
      for (let i = 0; (await client.send("/leftEarly/asked")).text === "0"; i++) check(i < 2000, "the store is asked");
      disconnect();
      // Further turns of the server's event loop, in which it reads the end of that connection.
      await client.statuses(10, "/leftEarly/asked");
      await client.send("/leftEarly/open");
      for (let i = 0; ; i++) {
        const retry = await pay(client, "/leftEarly", "once");
        // The first request still runs.
        if (retry.status === 409 && i < 200) continue;
        checkEqual([retry.status, retry.text], [200, "paid"], `a retry${isReplay(retry) ? ", replayed" : ""}`);
        return;
      }
    },
  },
];

/** A client that disconnects while its handler waits, or after it has begun its response. */
function unreadCase(title: string, name: "unread" | "unreadStream"): MiddlewareCase {
  const openStream = () =>
    new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(new Uint8Array(1)) });
  return {
    title,
    routes: {
      [name]: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(concurrency(4, { leaseMs: LEASE, name })) }],
        async handle(path, disconnected) {
          if (!path.endsWith("/wait")) return {};
          if (name === "unreadStream") return { body: openStream() };
          await disconnected;
          return {};
        },
      }),
    },
    async drive(client) {
      const disconnect = await client.write({
        path: `/${name}/wait`,
        // More than Node reads of a body before its handler does. The client sends no more.
        headers: { "Content-Length": "3000000" },
        body: "x".repeat(300_000),
      });
      await client.until(name, "the request", ({ handled }) => handled > 0);
      disconnect();
      await untilRemaining(client, `/${name}`, 3);
    },
  };
}

/** A store that waits before it claims a key. */
function slowStore(store: IdempotencyStore, wait: () => Promise<void>): IdempotencyStore {
  return new Proxy(store, {
    get(target, name) {
      const member = target[name as keyof IdempotencyStore] as unknown;
      if (typeof member !== "function") return member;
      return async (...args: unknown[]) => {
        if (name === "begin") await wait();
        return member.apply(target, args);
      };
    },
  });
}
