/** What is counted and what is not, and how long a request is held. */
import { monotonicMs } from "../../core/clock.ts";
import type { LimiterLike, Outcome } from "../../middleware/gate/options.ts";
import { check, checkEqual as same } from "../check.ts";
import { type MiddlewareCase, slow, times } from "./case.ts";
import { tellsNothing } from "./client.ts";

const HOUR_S = 3600;
const PREFLIGHT = { Origin: "https://elsewhere.example", "Access-Control-Request-Method": "POST" };

export const countingCases: readonly MiddlewareCase[] = [
  {
    title: "lets a burst through to the limit, then answers 429 with all that a client needs",
    routes: { burst: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(5, "burst")) }] }) },
    async drive({ ask, statuses, seen }) {
      same(await statuses(5, "/burst"), times(5, 200), "the burst");
      const denied = await ask("/burst");
      same(denied.status, 429, "the sixth");
      check(/^[1-9]\d*$/.test(denied.header("Retry-After") ?? ""), `Retry-After: ${denied.header("Retry-After")}`);
      check(Number(denied.header("Retry-After")) > 4 * HOUR_S, "Retry-After tells when a whole token is there");
      same(denied.header("Cache-Control"), "no-store", "Cache-Control");
      same(denied.header("Content-Type"), "application/problem+json", "Content-Type");
      const { type, title, status, detail, "violated-policies": violated } = denied.json();
      same(type, "https://iana.org/assignments/http-problem-types#quota-exceeded", "type");
      same([title, status, violated], ["Quota Exceeded", 429, ["burst"]], "the problem");
      same(detail, "Limit of 5 requests per 86400 s reached.", "detail");
      const text = await ask("/burst", { headers: { Accept: "text/plain" } });
      same([text.status, text.text], [429, "Quota Exceeded. Limit of 5 requests per 86400 s reached.\n"], "as text");
      same((await seen("burst")).handled, 5, "how often the handler was reached");
    },
  },
  {
    title: "is exact when many ask at once",
    routes: { rush: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(20, "rush")) }] }) },
    async drive({ ask }) {
      const answers = await Promise.all(times(60, 0).map(() => ask("/rush")));
      same(answers.filter(({ status }) => status === 200).length, 20, "admitted of 60");
      same(answers.filter(({ status }) => status === 429).length, 40, "denied of 60");
    },
  },
  {
    title: "counts HEAD and OPTIONS, and does not charge a preflight to the caller",
    routes: { methods: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(3, "methods")) }] }) },
    async drive({ ask }) {
      const preflight = { method: "OPTIONS", headers: PREFLIGHT };
      const head = await ask("/methods", { method: "HEAD" });
      same([head.status, head.text], [200, ""], "HEAD");
      check(head.header("RateLimit")?.startsWith('"methods";r=2') === true, `HEAD: ${head.header("RateLimit")}`);
      const options = await ask("/methods", { method: "OPTIONS" });
      check(
        options.header("RateLimit")?.startsWith('"methods";r=1') === true,
        `OPTIONS: ${options.header("RateLimit")}`,
      );
      const before = await ask("/methods", preflight);
      same(before.status, 200, "a preflight");
      tellsNothing(before, "a preflight");
      same((await ask("/methods", { method: "POST", body: "x" })).status, 200, "POST");
      const { Origin: _, ...half } = preflight.headers;
      same((await ask("/methods", { method: "OPTIONS", headers: half })).status, 429, "what no browser would send");
      const denied = await ask("/methods", { method: "HEAD" });
      same([denied.status, denied.text], [429, ""], "HEAD that is denied");
      check(denied.header("Retry-After") !== null, "HEAD that is denied has Retry-After");
      same((await ask("/methods", preflight)).status, 200, "a preflight when nothing is left");
    },
  },
  {
    title: "charges OPTIONS requests that no browser sends as a preflight: they are no way around the limit (issue 13)",
    routes: { bypass: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(3, "bypass")) }] }) },
    async drive({ ask, seen }) {
      const method = (name: string) => ({ headers: { ...PREFLIGHT, "Access-Control-Request-Method": name } });
      const stream = () => new Blob(["password=hunter2"]).stream();
      const attempts: Parameters<typeof ask>[1][] = [
        { headers: PREFLIGHT, body: "password=hunter2" },
        { headers: { ...PREFLIGHT, "Content-Type": "text/plain" }, body: stream(), duplex: "half" },
        { headers: { "Access-Control-Request-Method": "POST" } },
        { headers: { Origin: "https://elsewhere.example" } },
        ...["x", "post", "CONNECT", "TRACE", "GET POST", "A".repeat(21), "P2ST"].map(method),
        { headers: PREFLIGHT, body: "password=hunter3" },
      ];
      const statuses: number[] = [];
      for (const init of attempts) statuses.push((await ask("/bypass", { method: "OPTIONS", ...init })).status);
      same(statuses, [200, 200, 200, ...times(attempts.length - 3, 429)], "a limit of 3");
      same((await seen("bypass")).handled, 3, "how often the handler was reached");
    },
  },
  {
    title: "rejects preflights over the budget of their IP address (issue 13)",
    routes: {
      preflights: ({ limiter }) => ({
        guards: [
          {
            limiter: limiter(slow(1, "caller")),
            preflight: { capacity: 2, tokensPerSecond: "2/d" },
            onLimited: throwError,
          },
        ],
      }),
      preflightsUnasked: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "unasked")), key: throwError, cost: throwError, skip: throwError }],
      }),
      preflightsCharged: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "charged")), preflight: "charge" }],
      }),
      preflightsInShadow: ({ limiter }) => ({
        guards: [
          {
            limiter: limiter(slow(1, "in-shadow")),
            preflight: { capacity: 1, tokensPerSecond: "1/d" },
            mode: "shadow",
          },
        ],
      }),
    },
    async drive({ ask, as, statuses, seen }) {
      const from = (address: string) => ({ method: "OPTIONS", headers: { ...as(address), ...PREFLIGHT } });
      same(await statuses(3, "/preflights", from("203.0.113.50")), [200, 200, 429], "one address");
      const denied = await ask("/preflights", from("203.0.113.50"));
      same([denied.status, denied.header("Cache-Control")], [429, "no-store"], "a preflight over the budget");
      check(Number(denied.header("Retry-After")) > HOUR_S, `Retry-After: ${denied.header("Retry-After")}`);
      same(denied.json()["violated-policies"], ["preflight"], "violated-policies");
      tellsNothing(denied, "a preflight over the budget");
      same((await ask("/preflights", from("203.0.113.51"))).status, 200, "another address");
      const get = { headers: as("203.0.113.50") };
      same((await ask("/preflights", get)).status, 200, "the caller's budget is untouched");
      const { decisions, errors } = await seen("preflights");
      same([decisions.map(({ allowed }) => allowed), errors], [[false, false, true], []], "decisions and errors");
      same(
        await statuses(2, "/preflightsUnasked", from("203.0.113.52")),
        [200, 200],
        "key, cost and skip are not called",
      );
      same(await statuses(2, "/preflightsCharged", from("203.0.113.53")), [200, 429], "charged like any request");
      same(await statuses(3, "/preflightsInShadow", from("203.0.113.54")), [200, 200, 200], "in shadow mode");
      const shadow = await seen("preflightsInShadow");
      same(shadow.decisions.length, 2, "preflights that would have been rejected");
    },
  },
  {
    title: "denies nothing and adds nothing in shadow mode, but counts",
    routes: { shadow: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "shadow")), mode: "shadow" }] }) },
    async drive({ ask, seen }) {
      for (let i = 0; i < 4; i++) {
        const answer = await ask("/shadow");
        same(answer.status, 200, "shadow");
        tellsNothing(answer, "shadow");
      }
      const { decisions } = await seen("shadow");
      same(
        decisions.map(({ allowed }) => allowed),
        [true, true, false, false],
        "decisions",
      );
    },
  },
  {
    title: "neither counts nor tells of what is skipped",
    routes: {
      skipped: ({ limiter, kit }) => ({
        guards: [{ limiter: limiter(slow(1, "skipped")), skip: (...call) => kit.header(call, "x-free") === "yes" }],
      }),
    },
    async drive({ ask, statuses }) {
      const free = { headers: { "X-Free": "yes" } };
      same(await statuses(3, "/skipped", free), [200, 200, 200], "skipped");
      tellsNothing(await ask("/skipped", free), "skipped");
      same(await statuses(2, "/skipped"), [200, 429], "counted");
    },
  },
  {
    title: "gives back what failed requests cost, once, and nothing more",
    routes: {
      refundFailed: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(2, "refund-failed")), refundIf: "failed" }],
        handle(path) {
          if (path.endsWith("/thrown")) throw new Error("on purpose");
          return { status: Number(path.split("/")[2]) };
        },
      }),
    },
    async drive({ ask, statuses }) {
      const left = async () => /r=(\d+)/.exec((await ask("/refundFailed/204")).header("RateLimit") ?? "")?.[1];
      for (const status of [500, 500, 404, 500]) same((await ask(`/refundFailed/${status}`)).status, status, "failed");
      check((await ask("/refundFailed/thrown")).status >= 500, "a handler that throws");
      same(await left(), "1", "all came back");
      same(await statuses(2, "/refundFailed/200"), [200, 429], "what succeeded is spent");
    },
  },
  {
    title: "gives back what succeeded, so that only failures count: a login form",
    routes: {
      refundOk: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(2, "refund-ok")), refundIf: "succeeded" }],
        handle: (path) => ({ status: Number(path.split("/")[2]) }),
      }),
    },
    async drive({ statuses }) {
      same(await statuses(5, "/refundOk/200"), times(5, 200), "successes");
      same(await statuses(3, "/refundOk/401"), [401, 401, 429], "failures");
    },
  },
  {
    title: "charges a client that disconnects early, although its request failed (issue 13)",
    routes: {
      abandoned: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(2, "abandoned")), refundIf: "failed" }],
        handle: failWhenAbandoned,
      }),
      abandonedOutcome: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(9, "abandoned-outcome")), refundIf: throwOutcome }],
        handle: failWhenAbandoned,
      }),
    },
    async drive({ ask, until, statuses }) {
      const abandon = async (name: string, count: number) => {
        const leaver = new AbortController();
        const left = ask(`/${name}/wait`, { signal: leaver.signal }).catch(() => "left");
        await until(name, `request ${count}`, ({ handled }) => handled === count);
        leaver.abort();
        same(await left, "left", `request ${count}`);
      };
      await abandon("abandoned", 1);
      await abandon("abandoned", 2);
      await abandon("abandonedOutcome", 1);
      const { errors } = await until("abandonedOutcome", "the outcome", ({ errors }) => errors.length === 1);
      same(errors, ["aborted: true"], "the outcome");
      same(await statuses(1, "/abandoned"), [429], "both were charged");
    },
  },
  {
    title: "holds what a leaky bucket delays, and denies what would wait too long",
    routes: {
      leaky: ({ limiter }) => ({
        guards: [{ limiter: limiter({ algorithm: "leaky-bucket", capacity: 5, leaksPerSecond: 10, name: "leaky" }) }],
      }),
      leakyShort: ({ limiter }) => ({
        guards: [
          {
            limiter: limiter({ algorithm: "leaky-bucket", capacity: 50, leaksPerSecond: "1/m", name: "short" }),
            maxDelayMs: 50,
          },
        ],
      }),
    },
    async drive({ statuses, ask, seen }) {
      const start = monotonicMs();
      same(await statuses(4, "/leaky"), times(4, 200), "the queue");
      const took = monotonicMs() - start;
      // Each of the three may be a millisecond early: timers count whole ones.
      check(took >= 297, `four requests at 10 a second took ${took} ms`);
      same((await ask("/leakyShort")).status, 200, "the first of a slow queue");
      for (let i = 0; i < 3; i++) {
        const late = await ask("/leakyShort");
        same(late.status, 429, "the next would wait for a minute");
        const wait = Number(late.header("Retry-After"));
        check(wait >= 55 && wait <= 60, `what is denied leaves the queue: ${wait} s`);
      }
      same((await seen("leakyShort")).handled, 1, "how often the handler was reached");
    },
  },
  {
    title: "stops holding a request when its client leaves",
    routes: {
      leaving: ({ limiter }) => ({
        guards: [{ limiter: limiter({ algorithm: "leaky-bucket", capacity: 9, leaksPerSecond: 4, name: "leaving" }) }],
      }),
    },
    async drive({ ask, until }) {
      same((await ask("/leaving")).status, 200, "the first");
      const leaver = new AbortController();
      const left = ask("/leaving", { signal: leaver.signal }).catch(() => "left");
      await until("leaving", "the second request", ({ decisions }) => decisions.length === 2);
      leaver.abort();
      same(await left, "left", "the second");
      // The third is held for longer than the second would have been.
      same((await ask("/leaving")).status, 200, "the third");
      const { handled } = await until("leaving", "the third request", ({ decisions }) => decisions.length === 3);
      same(handled, 2, "how often the handler was reached");
    },
  },
  {
    title: "takes costs, and says when one can never fit",
    routes: {
      costs: ({ limiter, kit }) => ({
        guards: [{ limiter: limiter(slow(10, "costs")), cost: (...call) => Number(kit.header(call, "x-cost")) }],
      }),
    },
    async drive({ ask }) {
      const costing = (cost: number) => ask("/costs", { headers: { "X-Cost": String(cost) } });
      check((await costing(7)).header("RateLimit")?.startsWith('"costs";r=3') === true, "a cost of 7");
      const never = await costing(11);
      same([never.status, never.header("Retry-After")], [429, null], "a cost that never fits");
      same(never.json().retryable, false, "retryable");
      same((await costing(4)).status, 429, "a cost that does not fit now");
      same((await costing(3)).status, 200, "a cost that does");
    },
  },
  {
    title: "takes keys, limiters chosen by the request, and limiters of others",
    routes: {
      keyed: ({ limiter, kit }) => ({
        guards: [{ limiter: limiter(slow(1, "keyed")), key: (...call) => `user:${kit.header(call, "x-user")}` }],
      }),
      plans: ({ limiter, kit }) => {
        const plans: Record<string, ReturnType<typeof limiter>> = {
          free: limiter(slow(1, "free")),
          paid: limiter(slow(3, "paid")),
        };
        return { guards: [{ limiter: (...call) => plans[kit.header(call, "x-plan") ?? "free"] as never }] };
      },
      foreign: () => ({ guards: [{ limiter: foreignLimiter() }] }),
      foreignShape: () => ({ guards: [{ limiter: socketLimiter() }] }),
    },
    async drive({ statuses, ask }) {
      const user = (name: string) => ({ headers: { "X-User": name } });
      same(await statuses(2, "/keyed", user("a")), [200, 429], "one user");
      same(await statuses(1, "/keyed", user("b")), [200], "another user");
      same(await statuses(2, "/plans", { headers: { "X-Plan": "free" } }), [200, 429], "free");
      same(await statuses(4, "/plans", { headers: { "X-Plan": "paid" } }), [200, 200, 200, 429], "paid");
      const answer = await ask("/foreign");
      same([answer.status, answer.header("RateLimit-Policy")], [200, '"theirs";q=1'], "a limiter of others");
      same((await ask("/foreign")).status, 429, "a limiter of others that denies");
      // The policy has neither a name nor a window (issue 13).
      same(await statuses(2, "/foreignShape"), [200, 429], "a limiter whose policy has another shape");
      same((await ask("/foreignShape")).header("Retry-After"), "2", "Retry-After of such a limiter");
    },
  },
];

/** As limiters of @ws-kit/rate-limit are. */
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

function throwError(): never {
  throw new Error("on purpose");
}

/** A handler that passes the signal of its request on: it throws when the client disconnects. */
async function failWhenAbandoned(path: string, disconnected: PromiseLike<unknown> | undefined): Promise<object> {
  if (!path.endsWith("/wait")) return {};
  await disconnected;
  throw new Error("This operation was aborted");
}

/** Errors of `refundIf` are visible to the client of the suite. */
function throwOutcome({ aborted }: Outcome): never {
  throw new Error(`aborted: ${aborted}`);
}

/** As another library may have it: a promise, and few figures. */
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
