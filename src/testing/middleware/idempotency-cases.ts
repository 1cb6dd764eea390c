/** Cases about `idempotent` around `rateLimit`: which requests are retries, and what they cost. */
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow, times } from "./case.ts";
import { type Client, expectNoFields, type TestResponse } from "./client.ts";
import { waitingRoom } from "./hold-cases.ts";

const JSON_TYPE = "application/json; charset=utf-8";

/** Sends a payment with a key, as a user. */
export function pay(
  { send }: Client,
  path: string,
  key: string | undefined,
  more: Payment = {},
): Promise<TestResponse> {
  const { user = "ada", body = { amount: 100 } } = more;
  return send(path, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      ...(user === null ? {} : { "X-User": user }),
      ...(key === undefined ? {} : { "Idempotency-Key": key }),
    },
    body: JSON.stringify(body),
  });
}

interface Payment {
  user?: string | null;
  body?: object;
}

export const isReplay = (response: TestResponse): boolean => response.header("Idempotent-Replayed") === "true";

export function checkProblem(response: TestResponse, status: number, code: string, what: string): void {
  checkEqual([response.status, response.json().code], [status, code], what);
  checkEqual(response.header("Content-Type")?.split(";")[0], "application/problem+json", `${what}: the type`);
  check(response.header("Cache-Control") === "no-store", `${what}: no-store`);
}

/** JSON text that is nested too deeply for code that is recursive. */
const deep = (open: string, close: string): string => `${open.repeat(5000)}1${close.repeat(5000)}`;

export const idempotencyCases: readonly MiddlewareCase[] = [
  {
    title: "compares JSON that is nested 5000 deep, and does not fail",
    routes: { nested: ({ limiter }) => ({ idempotency: {}, rateLimits: [{ limiter: limiter(slow(9, "nested")) }] }) },
    async drive(client) {
      const headers = { "Content-Type": "application/json", "X-User": "ada" };
      const statuses = async (key: string, body: string) =>
        (await client.send("/nested", { method: "POST", headers: { ...headers, "Idempotency-Key": key }, body }))
          .status;
      for (const [key, body] of [
        ["lists", deep("[", "]")],
        ["objects", deep('{"a":', "}")],
        ["an empty object", deep("[", "]").replace("1", "{}")],
      ] as const) {
        const name = key.replaceAll(" ", "-");
        const first = await statuses(name, body);
        check(first < 300, `${key}: status ${first}`);
        checkEqual(await statuses(name, body), first, `${key}, sent again`);
        checkEqual(await statuses(name, body.replace(/1|\{\}/, "2")), 422, `${key}, with another value`);
      }
    },
  },
  {
    title: "runs a request with an idempotency key once, and replays its response without a charge",
    routes: {
      paid: ({ limiter }) => {
        let id = 0;
        return {
          idempotency: {},
          rateLimits: [{ limiter: limiter(slow(9, "once-paid")) }],
          handle: () => ({
            status: 201,
            headers: {
              "Content-Type": JSON_TYPE,
              Location: "/payments/1",
              "X-Own": "1",
              "Set-Cookie": ["own=1; Path=/"],
            },
            body: JSON.stringify({ id: ++id }),
          }),
        };
      },
    },
    async drive(client) {
      const first = await pay(client, "/paid", "a");
      checkEqual([first.status, first.text, isReplay(first)], [201, '{"id":1}', false], "the first request");
      check(first.header("RateLimit") !== null, "the first request has RateLimit fields");
      for (const key of ["a", '"a"']) {
        const again = await pay(client, "/paid", key);
        checkEqual([again.status, again.text, isReplay(again)], [201, '{"id":1}', true], `a retry with ${key}`);
        checkEqual(again.header("Content-Type"), first.header("Content-Type"), "the type of a retry");
        checkEqual(again.header("Location"), "/payments/1", "the location of a retry");
        checkEqual([again.header("X-Own"), again.cookies.length], [null, 0], "headers that are not stored");
        expectNoFields(again, "a retry");
      }
      checkEqual((await pay(client, "/paid", "b")).text, '{"id":2}', "another key");
      checkEqual((await pay(client, "/paid", undefined)).text, '{"id":3}', "no key");
      checkEqual((await pay(client, "/paid/x", "c")).text, '{"id":4}', "another path with another key");
      const read = await client.send("/paid", { headers: { "X-User": "ada", "Idempotency-Key": "a" } });
      checkEqual([read.text, isReplay(read)], ['{"id":5}', false], "another method");
      const { handled, decisions } = await client.seen("paid");
      checkEqual([handled, decisions.length], [5, 5], "handled and charged");
      checkEqual((await client.seen("paid")).events, [], "warnings");
    },
  },
  {
    title: "warns once if idempotent is mounted behind rateLimit, which charges replays",
    routes: {
      chargedReplays: ({ limiter }) => ({
        idempotency: {},
        isIdempotencyLast: true,
        rateLimits: [{ limiter: limiter(slow(9, "once-charged-replays")) }],
      }),
    },
    async drive(client) {
      const replays = [];
      for (const key of ["a", "a", "b", "b"]) replays.push(isReplay(await pay(client, "/chargedReplays", key)));
      checkEqual(replays, [false, true, false, true], "replays");
      await client.until("chargedReplays", "the warning", ({ events }) => events.length > 0);
      const { handled, decisions, events } = await client.seen("chargedReplays");
      checkEqual([handled, decisions.length], [2, 4], "handled and charged");
      checkEqual(events, ["warning"], "the events");
    },
  },
  {
    title: "rejects another payload with the same idempotency key, and malformed keys",
    routes: {
      reused: ({ limiter }) => ({ idempotency: {}, rateLimits: [{ limiter: limiter(slow(9, "once-reused")) }] }),
      keyRequired: ({ limiter }) => ({
        idempotency: { required: true },
        rateLimits: [{ limiter: limiter(slow(9, "once-key-required")) }],
      }),
    },
    async drive(client) {
      checkEqual((await pay(client, "/reused", "a")).status, 200, "the first request");
      checkProblem(await pay(client, "/reused", "a", { body: { amount: 1 } }), 422, "key-reused", "another body");
      checkProblem(await pay(client, "/reused?x=1", "a"), 422, "key-reused", "another query");
      checkProblem(await pay(client, "/reused/x", "a"), 422, "key-reused", "another path");
      for (const key of ["a b", "a, a", '"a", "a"', '"a', "a;b", "x".repeat(256), '"a\\n"']) {
        checkProblem(await pay(client, "/reused", key), 400, "key-malformed", `the key ${JSON.stringify(key)}`);
      }
      checkEqual((await pay(client, "/reused", `"${"x".repeat(255)}"`)).status, 200, "the longest key");
      checkProblem(await pay(client, "/keyRequired", undefined), 400, "key-missing", "no key");
      checkProblem(await pay(client, "/keyRequired", "a", { user: null }), 400, "key-unscoped", "no scope");
      const { handled, decisions } = await client.seen("reused");
      checkEqual([handled, decisions.length], [2, 2], "handled and charged");
      checkEqual((await client.seen("keyRequired")).handled, 0, "handled where a key is required");
    },
  },
  {
    title: "separates the idempotency keys of two users, and ignores those of unknown clients",
    routes: {
      scoped: ({ limiter }) => {
        let id = 0;
        return {
          idempotency: {},
          rateLimits: [{ limiter: limiter(slow(9, "once-scoped")) }],
          handle: () => ({ body: `${++id}` }),
        };
      },
    },
    async drive(client) {
      const bodies = [];
      for (const user of ["ada", "bob", "ada", "bob", null, null]) {
        bodies.push((await pay(client, "/scoped", "same", { user })).text);
      }
      checkEqual(bodies, ["1", "2", "1", "2", "3", "4"], "the responses of two users and of unknown clients");
      checkEqual((await client.seen("scoped")).events, ["warning"], "one warning for keys without a scope");
    },
  },
  {
    title: "responds with 409 while the first request with an idempotency key is in progress, or waits for it",
    routes: Object.fromEntries(
      [
        ["inProgress", 0],
        ["awaited", "20s"],
      ].map(([name, wait]) => [
        name,
        ({ limiter }) => {
          const room = waitingRoom();
          return {
            idempotency: { wait: wait as 0 | "20s" },
            rateLimits: [{ limiter: limiter(slow(9, `once-${name}`)) }],
            async handle(path: string) {
              if (path.endsWith("/open")) room.open();
              else await room.wait();
              return { status: 201, body: "done" };
            },
          };
        },
      ]),
    ),
    async drive(client) {
      const first = pay(client, "/inProgress", "a");
      await client.until("inProgress", "the first request", ({ handled }) => handled === 1);
      const conflict = await pay(client, "/inProgress", "a");
      checkProblem(conflict, 409, "request-in-progress", "a retry");
      checkEqual(conflict.header("Retry-After"), "1", "Retry-After");
      const reused = await pay(client, "/inProgress", "a", { body: { amount: 1 } });
      checkProblem(reused, 422, "key-reused", "another payload");
      await client.send("/inProgress/open");
      checkEqual((await first).text, "done", "the first request");
      check(isReplay(await pay(client, "/inProgress", "a")), "a retry after the response is a replay");

      const all = times(4, 0).map(() => pay(client, "/awaited", "a"));
      await client.until("awaited", "the first request", ({ handled }) => handled === 1);
      await client.send("/awaited/open");
      const responses = await Promise.all(all);
      checkEqual(
        responses.map(({ status, text }) => `${status} ${text}`),
        times(4, "201 done"),
        "all requests that wait",
      );
      checkEqual(responses.filter(isReplay).length, 3, "replays");
      checkEqual((await client.seen("awaited")).handled, 2, "handled, with the request that opens");
    },
  },
  {
    title: "limits the replays of each scope",
    routes: {
      manyReplays: ({ limiter }) => ({
        idempotency: { replayLimit: slow(2, "once-replays") },
        rateLimits: [{ limiter: limiter(slow(9, "once-many-replays")) }],
      }),
    },
    async drive(client) {
      const statuses = [];
      for (let i = 0; i < 4; i++) statuses.push((await pay(client, "/manyReplays", "a")).status);
      checkEqual(statuses, [200, 200, 200, 429], "retries of one user");
      const rejected = await pay(client, "/manyReplays", "a");
      check(Number(rejected.header("Retry-After")) > 0, "Retry-After");
      checkEqual((await pay(client, "/manyReplays", "b")).status, 200, "a new request of the user");
      checkEqual((await pay(client, "/manyReplays", "a", { user: "bob" })).status, 200, "another user");
      checkEqual((await client.seen("manyReplays")).handled, 3, "handled");
    },
  },
];
