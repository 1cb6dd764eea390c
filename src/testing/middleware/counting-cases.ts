/** Cases about counting: limits, costs, keys, shadow mode, skipped and delayed requests. */
import { monotonicMs } from "../../base/clock.ts";
import type { LimiterLike } from "../../middleware/gate/options.ts";
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow, times } from "./case.ts";
import { expectNoFields } from "./client.ts";

const HOUR_S = 3600;

export const countingCases: readonly MiddlewareCase[] = [
  {
    title: "allows a burst up to the limit, then rejects with 429, Retry-After and a problem document",
    routes: { burst: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(5, "burst")) }] }) },
    async drive({ send, statuses, seen }) {
      checkEqual(await statuses(5, "/burst"), times(5, 200), "the burst");
      const denied = await send("/burst");
      checkEqual(denied.status, 429, "the sixth");
      check(/^[1-9]\d*$/.test(denied.header("Retry-After") ?? ""), `Retry-After: ${denied.header("Retry-After")}`);
      check(
        Number(denied.header("Retry-After")) > 4 * HOUR_S,
        "Retry-After is the time until a whole token is available",
      );
      checkEqual(denied.header("Cache-Control"), "no-store", "Cache-Control");
      checkEqual(denied.header("Content-Type"), "application/problem+json", "Content-Type");
      const { type, title, status, detail, "violated-policies": violated, retryAfterMs } = denied.json();
      const seconds = Number(denied.header("Retry-After"));
      check(Math.ceil(Number(retryAfterMs) / 1000) === seconds, `retryAfterMs: ${retryAfterMs}, ${seconds} s`);
      checkEqual(type, "https://iana.org/assignments/http-problem-types#quota-exceeded", "type");
      checkEqual([title, status, violated], ["Quota Exceeded", 429, ["burst"]], "the problem");
      checkEqual(detail, "Limit of 5 requests per 86400 s reached.", "detail");
      checkEqual((await seen("burst")).handled, 5, "how often the handler was called");
    },
  },
  {
    title: "rejects with plain text if the client prefers it",
    routes: { plainText: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "plain-text")) }] }) },
    async drive({ send }) {
      await send("/plainText");
      const { status, text, header } = await send("/plainText", { headers: { Accept: "text/plain" } });
      checkEqual([status, text], [429, "Quota Exceeded. Limit of 1 requests per 86400 s reached.\n"], "as text");
      checkEqual(header("Content-Type"), "text/plain; charset=utf-8", "Content-Type");
    },
  },
  {
    title: "admits exactly the limit of concurrent requests",
    routes: { rush: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(20, "rush")) }] }) },
    async drive({ send }) {
      const responses = await Promise.all(times(60, 0).map(() => send("/rush")));
      checkEqual(responses.filter(({ status }) => status === 200).length, 20, "admitted of 60");
      checkEqual(responses.filter(({ status }) => status === 429).length, 40, "denied of 60");
    },
  },
  {
    title: "rejects nothing and adds no headers in shadow mode, but counts",
    routes: { shadow: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(2, "shadow")), mode: "shadow" }] }) },
    async drive({ send, seen }) {
      for (let i = 0; i < 4; i++) {
        const response = await send("/shadow");
        checkEqual(response.status, 200, "shadow");
        expectNoFields(response, "shadow");
      }
      const { decisions } = await seen("shadow");
      checkEqual(
        decisions.map(({ allowed }) => allowed),
        [true, true, false, false],
        "decisions",
      );
    },
  },
  {
    title: "neither counts nor adds headers to skipped requests",
    routes: {
      skipped: ({ limiter, kit }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "skipped")), skip: (...args) => kit.header(args, "x-free") === "yes" }],
      }),
    },
    async drive({ send, statuses }) {
      const free = { headers: { "X-Free": "yes" } };
      checkEqual(await statuses(3, "/skipped", free), [200, 200, 200], "skipped");
      expectNoFields(await send("/skipped", free), "skipped");
      checkEqual(await statuses(2, "/skipped"), [200, 429], "counted");
    },
  },
  {
    title: "delays requests by a leaky bucket, and rejects those over maxDelayMs",
    routes: {
      leaky: ({ limiter }) => ({
        rateLimits: [
          { limiter: limiter({ algorithm: "leaky-bucket", capacity: 5, leaksPerSecond: 10, name: "leaky" }) },
        ],
      }),
      leakyShort: ({ limiter }) => ({
        rateLimits: [
          {
            limiter: limiter({ algorithm: "leaky-bucket", capacity: 50, leaksPerSecond: "1/m", name: "short" }),
            maxDelayMs: 50,
          },
        ],
      }),
    },
    async drive({ statuses, send, seen }) {
      const start = monotonicMs();
      checkEqual(await statuses(4, "/leaky"), times(4, 200), "the queue");
      const took = monotonicMs() - start;
      // Timers have a resolution of 1 ms, so each of the three may be that early.
      check(took >= 297, `four requests at 10 a second took ${took} ms`);
      checkEqual((await send("/leakyShort")).status, 200, "the first of a slow queue");
      for (let i = 0; i < 3; i++) {
        const late = await send("/leakyShort");
        checkEqual(late.status, 429, "the next would wait a minute");
        const wait = Number(late.header("Retry-After"));
        check(wait >= 55 && wait <= 60, `a rejected request leaves the queue: ${wait} s`);
      }
      checkEqual((await seen("leakyShort")).handled, 1, "how often the handler was called");
    },
  },
  {
    title: "stops delaying a request when its client disconnects",
    routes: {
      leaving: ({ limiter }) => ({
        rateLimits: [
          { limiter: limiter({ algorithm: "leaky-bucket", capacity: 9, leaksPerSecond: 4, name: "leaving" }) },
        ],
      }),
    },
    async drive({ send, until }) {
      checkEqual((await send("/leaving")).status, 200, "the first");
      const leaver = new AbortController();
      const left = send("/leaving", { signal: leaver.signal }).catch(() => "left");
      await until("leaving", "the second request", ({ decisions }) => decisions.length === 2);
      leaver.abort();
      checkEqual(await left, "left", "the second");
      // The third is delayed for longer than the second would have been.
      checkEqual((await send("/leaving")).status, 200, "the third");
      const { handled } = await until("leaving", "the third request", ({ decisions }) => decisions.length === 3);
      checkEqual(handled, 2, "how often the handler was called");
    },
  },
  {
    title: "charges the cost of a request, and marks a cost that can never fit",
    routes: {
      costs: ({ limiter, kit }) => ({
        rateLimits: [{ limiter: limiter(slow(10, "costs")), cost: (...args) => Number(kit.header(args, "x-cost")) }],
      }),
    },
    async drive({ send }) {
      const costing = (cost: number) => send("/costs", { headers: { "X-Cost": String(cost) } });
      check((await costing(7)).header("RateLimit")?.startsWith('"costs";r=3') === true, "a cost of 7");
      const never = await costing(11);
      checkEqual([never.status, never.header("Retry-After")], [429, null], "a cost that never fits");
      checkEqual(never.json().retryable, false, "retryable");
      checkEqual((await costing(4)).status, 429, "a cost that does not fit now");
      checkEqual((await costing(3)).status, 200, "a cost that does");
    },
  },
  {
    title: "accepts a key function, a limiter function and third-party limiters",
    routes: {
      keyed: ({ limiter, kit }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "keyed")), key: (...args) => `user:${kit.header(args, "x-user")}` }],
      }),
      plans: ({ limiter, kit }) => {
        const plans: Record<string, ReturnType<typeof limiter>> = {
          free: limiter(slow(1, "free")),
          paid: limiter(slow(3, "paid")),
        };
        return { rateLimits: [{ limiter: (...args) => plans[kit.header(args, "x-plan") ?? "free"] as never }] };
      },
      foreign: () => ({ rateLimits: [{ limiter: foreignLimiter() }] }),
      foreignShape: () => ({ rateLimits: [{ limiter: socketLimiter() }] }),
    },
    async drive({ statuses, send }) {
      const user = (name: string) => ({ headers: { "X-User": name } });
      checkEqual(await statuses(2, "/keyed", user("a")), [200, 429], "one user");
      checkEqual(await statuses(1, "/keyed", user("b")), [200], "another user");
      checkEqual(await statuses(2, "/plans", { headers: { "X-Plan": "free" } }), [200, 429], "free");
      checkEqual(await statuses(4, "/plans", { headers: { "X-Plan": "paid" } }), [200, 200, 200, 429], "paid");
      const response = await send("/foreign");
      checkEqual(
        [response.status, response.header("RateLimit-Policy")],
        [200, '"theirs";q=1'],
        "a third-party limiter",
      );
      checkEqual((await send("/foreign")).status, 429, "a third-party limiter that denies");
      // The policy has neither a name nor a window (issue 13).
      checkEqual(await statuses(2, "/foreignShape"), [200, 429], "a limiter whose policy has an unknown shape");
      checkEqual((await send("/foreignShape")).header("Retry-After"), "2", "Retry-After of such a limiter");
    },
  },
];

/** Has the shape of limiters of @ws-kit/rate-limit. */
function socketLimiter(): LimiterLike {
  let left = 1;
  const limiter = {
    async consume() {
      const allowed = left-- > 0;
      return allowed ? { allowed, remaining: 0 } : { allowed, remaining: 0, retryAfterMs: 2000 };
    },
    getPolicy: () => ({ capacity: 1, tokensPerSecond: 0.5 }),
  };
  return limiter as never;
}

/** Has the shape of another library's limiter: consume only. */
function foreignLimiter() {
  let left = 1;
  return {
    async consume() {
      const allowed = left-- > 0;
      return allowed
        ? ({ allowed, policy: "theirs", limit: 1, remaining: 0, resetAfterMs: 1000, nextAfterMs: 1000 } as const)
        : ({
            allowed: false,
            policy: "theirs",
            limit: 1,
            remaining: 0,
            resetAfterMs: 1000,
            nextAfterMs: 1000,
            retryAfterMs: 1000,
          } as const);
    },
  };
}
