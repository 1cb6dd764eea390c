/** Cases about the responses that `idempotent` stores and replays. */
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow, streamOf, times } from "./case.ts";
import type { PlainResponse } from "./guarded-route.ts";
import { checkProblem, isReplay, pay } from "./idempotency-cases.ts";

const MAX_BYTES = 1000;

/** Kinds of responses. */
const RESPONSES: Record<string, () => Partial<PlainResponse>> = {
  text: () => ({ status: 201, body: "Grüße" }),
  bytes: () => ({ body: new Uint8Array([0, 255, 128, 10]) }),
  stream: () => ({ body: streamOf("a", "", "b") }),
  empty: () => ({ status: 204, body: "" }),
  failed: () => ({ status: 500, body: "failed" }),
  refused: () => ({ status: 402, body: "no money" }),
  page: () => ({ status: 410, headers: { "Content-Type": "text/html; charset=utf-8" }, body: "<p>Grüße</p>" }),
  problem: () => ({ status: 599, headers: { "Content-Type": "application/problem+json" }, body: "{}" }),
  moved: () => ({ status: 301, headers: { Location: "/elsewhere" }, body: "" }),
  longest: () => ({ body: "x".repeat(MAX_BYTES) }),
};

/** Statuses that mean "try again". */
const NOT_STORED = [401, 403, 408, 425, 429, 502, 503, 504];

export const storedResponseCases: readonly MiddlewareCase[] = [
  {
    title: "stores no response that means try again: a 429, a 503 or a challenge",
    routes: {
      rejectedInside: ({ limiter }) => ({
        idempotency: {},
        rateLimits: [{ limiter: limiter(slow(1, "once-rejected-inside")) }],
      }),
      tryAgain: ({ limiter }) => {
        const seen = new Set<string>();
        return {
          idempotency: {},
          rateLimits: [{ limiter: limiter(slow(99, "once-try-again")) }],
          handle(path) {
            if (seen.has(path)) return { status: 201, body: "done" };
            seen.add(path);
            return { status: Number(path.split("/")[2]), body: "try again" };
          },
        };
      },
    },
    async drive(client) {
      const statuses = [];
      for (const key of ["a", "b", "b", "a"]) statuses.push((await pay(client, "/rejectedInside", key)).status);
      checkEqual(statuses, [200, 429, 429, 200], "requests over the limit, and a replay");
      const { decisions, handled } = await client.seen("rejectedInside");
      checkEqual([decisions.length, handled], [3, 1], "decisions and handled requests");
      for (const status of NOT_STORED) {
        const first = await pay(client, `/tryAgain/${status}`, `s${status}`);
        const second = await pay(client, `/tryAgain/${status}`, `s${status}`);
        checkEqual([first.status, second.status, isReplay(second)], [status, 201, false], `status ${status}`);
        check(isReplay(await pay(client, `/tryAgain/${status}`, `s${status}`)), `the replay after ${status}`);
      }
    },
  },
  {
    title: "replays the bytes of a response, and does not run a request again whose response was too long",
    routes: {
      replayed: ({ limiter }) => ({
        idempotency: { maxBodyBytes: MAX_BYTES, replayLimit: "99/m" },
        rateLimits: [{ limiter: limiter(slow(99, "once-replayed")) }],
        handle(path) {
          const kind = path.split("/")[2] ?? "";
          const headers = { Location: "/1" };
          if (kind === "long") return { status: 201, headers, body: "x".repeat(MAX_BYTES + 1) };
          if (kind === "events")
            return { headers: { "Content-Type": "text/event-stream" }, body: streamOf("data: 1\n\n") };
          return RESPONSES[kind]?.() ?? {};
        },
      }),
    },
    async drive(client) {
      for (const [kind, response] of Object.entries(RESPONSES)) {
        const first = await pay(client, `/replayed/${kind}`, kind);
        const again = await pay(client, `/replayed/${kind}`, kind);
        checkEqual(first.status, response().status ?? 200, `the status of ${kind}`);
        checkEqual([again.status, [...again.bytes]], [first.status, [...first.bytes]], `the replay of ${kind}`);
        checkEqual([isReplay(first), isReplay(again)], [false, true], `whether ${kind} is a replay`);
        for (const name of ["Content-Type", "Location"]) {
          checkEqual(again.header(name), first.header(name), `${name} of the replay of ${kind}`);
        }
      }
      for (const [kind, status, length] of [
        ["long", 201, MAX_BYTES + 1],
        ["events", 200, 9],
      ] as const) {
        const first = await pay(client, `/replayed/${kind}`, kind);
        checkEqual([first.status, first.text.length], [status, length], `a response that is not stored: ${kind}`);
        const again = await pay(client, `/replayed/${kind}`, kind);
        checkProblem(again, 409, "response-not-stored", `the retry of ${kind}`);
        checkEqual(again.json()["original-status"], status, `the status of ${kind}`);
      }
      const { handled, events } = await client.seen("replayed");
      checkEqual(handled, Object.keys(RESPONSES).length + 2, "handled");
      checkEqual(events, times(2, "response-not-stored"), "events");
    },
  },
  {
    title: "does not run a request with an idempotency key again whose handler threw",
    routes: {
      threwOnce: ({ limiter }) => ({
        idempotency: {},
        rateLimits: [{ limiter: limiter(slow(9, "once-threw-once")) }],
        handle() {
          throw new Error("on purpose");
        },
      }),
    },
    async drive(client) {
      checkEqual((await pay(client, "/threwOnce", "a")).status, 500, "the first request");
      const again = await pay(client, "/threwOnce", "a");
      check(again.status === 409 || (again.status === 500 && isReplay(again)), `the retry: ${again.status}`);
      checkEqual((await client.seen("threwOnce")).handled, 1, "handled");
    },
  },
  {
    title: "runs a request with an idempotency key again that rateLimit could not check (issue 30)",
    routes: {
      uncheckedOnce: ({ limiter }) => {
        let asked = 0;
        return {
          idempotency: {},
          rateLimits: [
            {
              limiter: limiter(slow(9, "once-unchecked")),
              cost() {
                if (asked++ === 0) throw new Error("on purpose");
                return 1;
              },
            },
          ],
        };
      },
    },
    async drive(client) {
      checkEqual((await pay(client, "/uncheckedOnce", "a")).status, 500, "the first request");
      const again = await pay(client, "/uncheckedOnce", "a");
      checkEqual([again.status, isReplay(again)], [200, false], "the retry");
      check(isReplay(await pay(client, "/uncheckedOnce", "a")), "another retry is a replay");
    },
  },
  {
    title: "stores the response to a client that has disconnected, for its retry",
    routes: {
      leftAndBack: ({ limiter }) => ({
        idempotency: { wait: "20s" },
        rateLimits: [{ limiter: limiter(slow(9, "once-left-and-back")) }],
        async handle(_path, disconnected) {
          await disconnected;
          return { status: 201, body: "done" };
        },
      }),
    },
    async drive(client) {
      const leaver = new AbortController();
      const left = pay(
        { ...client, send: (path, init) => client.send(path, { ...init, signal: leaver.signal }) },
        "/leftAndBack",
        "a",
      ).catch(() => "left");
      await client.until("leftAndBack", "the request", ({ handled }) => handled === 1);
      leaver.abort();
      checkEqual(await left, "left", "the client");
      const again = await pay(client, "/leftAndBack", "a");
      checkEqual([again.status, again.text, isReplay(again)], [201, "done", true], "the retry");
      checkEqual((await client.seen("leftAndBack")).handled, 1, "handled");
    },
  },
];
