/** Cases about CORS preflights: which requests count as one, and their budget. */
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow, times } from "./case.ts";
import { expectNoFields } from "./client.ts";

const HOUR_S = 3600;
const PREFLIGHT = { Origin: "https://elsewhere.example", "Access-Control-Request-Method": "POST" };

export const preflightCases: readonly MiddlewareCase[] = [
  {
    title: "counts HEAD and OPTIONS requests, but does not charge preflights to the caller",
    routes: { methods: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(3, "methods")) }] }) },
    async drive({ send }) {
      const preflight = { method: "OPTIONS", headers: PREFLIGHT };
      const head = await send("/methods", { method: "HEAD" });
      checkEqual([head.status, head.text], [200, ""], "HEAD");
      check(head.header("RateLimit")?.startsWith('"methods";r=2') === true, `HEAD: ${head.header("RateLimit")}`);
      const options = await send("/methods", { method: "OPTIONS" });
      check(
        options.header("RateLimit")?.startsWith('"methods";r=1') === true,
        `OPTIONS: ${options.header("RateLimit")}`,
      );
      const before = await send("/methods", preflight);
      checkEqual(before.status, 200, "a preflight");
      expectNoFields(before, "a preflight");
      checkEqual((await send("/methods", { method: "POST", body: "x" })).status, 200, "POST");
      const { Origin: _, ...half } = preflight.headers;
      checkEqual(
        (await send("/methods", { method: "OPTIONS", headers: half })).status,
        429,
        "a request that no browser sends",
      );
      const denied = await send("/methods", { method: "HEAD" });
      checkEqual([denied.status, denied.text], [429, ""], "a rejected HEAD request");
      check(denied.header("Retry-After") !== null, "a rejected HEAD request has Retry-After");
      checkEqual((await send("/methods", preflight)).status, 200, "a preflight with nothing left");
    },
  },
  {
    title: "charges OPTIONS requests that are not valid preflights (issue 13)",
    routes: { bypass: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(3, "bypass")) }] }) },
    async drive({ send, seen }) {
      const method = (name: string) => ({ headers: { ...PREFLIGHT, "Access-Control-Request-Method": name } });
      const stream = () => new Blob(["password=hunter2"]).stream();
      const attempts: Parameters<typeof send>[1][] = [
        { headers: PREFLIGHT, body: "password=hunter2" },
        { headers: { ...PREFLIGHT, "Content-Type": "text/plain" }, body: stream(), duplex: "half" },
        { headers: { "Access-Control-Request-Method": "POST" } },
        { headers: { Origin: "https://elsewhere.example" } },
        ...["x", "post", "CONNECT", "TRACE", "GET POST", "A".repeat(21), "P2ST"].map(method),
        { headers: PREFLIGHT, body: "password=hunter3" },
      ];
      const statuses: number[] = [];
      for (const init of attempts) statuses.push((await send("/bypass", { method: "OPTIONS", ...init })).status);
      checkEqual(statuses, [200, 200, 200, ...times(attempts.length - 3, 429)], "a limit of 3");
      checkEqual((await seen("bypass")).handled, 3, "how often the handler was called");
    },
  },
  {
    title: "rejects preflights over the budget of their IP address (issue 13)",
    routes: {
      preflights: ({ limiter }) => ({
        rateLimits: [
          {
            limiter: limiter(slow(1, "caller")),
            preflight: { capacity: 2, tokensPerSecond: "2/d" },
            onLimited: throwError,
          },
        ],
      }),
      preflightsUnasked: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "unasked")), key: throwError, cost: throwError, skip: throwError }],
      }),
      preflightsCharged: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "charged")), preflight: "charge" }],
      }),
      preflightsInShadow: ({ limiter }) => ({
        rateLimits: [
          {
            limiter: limiter(slow(1, "in-shadow")),
            preflight: { capacity: 1, tokensPerSecond: "1/d" },
            mode: "shadow",
          },
        ],
      }),
    },
    async drive({ send, as, statuses, seen }) {
      const from = (address: string) => ({ method: "OPTIONS", headers: { ...as(address), ...PREFLIGHT } });
      checkEqual(await statuses(3, "/preflights", from("203.0.113.50")), [200, 200, 429], "one address");
      const denied = await send("/preflights", from("203.0.113.50"));
      checkEqual([denied.status, denied.header("Cache-Control")], [429, "no-store"], "a preflight over the budget");
      check(Number(denied.header("Retry-After")) > HOUR_S, `Retry-After: ${denied.header("Retry-After")}`);
      checkEqual(denied.json()["violated-policies"], ["preflight"], "violated-policies");
      expectNoFields(denied, "a preflight over the budget");
      checkEqual((await send("/preflights", from("203.0.113.51"))).status, 200, "another address");
      const get = { headers: as("203.0.113.50") };
      checkEqual((await send("/preflights", get)).status, 200, "the caller's budget is not charged");
      const { decisions, errors } = await seen("preflights");
      checkEqual([decisions.map(({ allowed }) => allowed), errors], [[false, false, true], []], "decisions and errors");
      checkEqual(
        await statuses(2, "/preflightsUnasked", from("203.0.113.52")),
        [200, 200],
        "key, cost and skip are not called",
      );
      checkEqual(await statuses(2, "/preflightsCharged", from("203.0.113.53")), [200, 429], "charged like any request");
      checkEqual(await statuses(3, "/preflightsInShadow", from("203.0.113.54")), [200, 200, 200], "in shadow mode");
      const shadow = await seen("preflightsInShadow");
      checkEqual(shadow.decisions.length, 2, "preflights that would have been rejected");
    },
  },
];

function throwError(): never {
  throw new Error("on purpose");
}
