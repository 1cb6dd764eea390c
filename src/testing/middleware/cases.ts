/** What every middleware has to do: for each case the routes that a server mounts, and how a client tries them. */
import { elapsed, hour } from "../../core/clock.ts";
import type { Policy } from "../../core/policy.ts";
import { check, same } from "../check.ts";
import { type Client, tellsNothing } from "./client.ts";
import type { Planner, RoutePlan } from "./guarded-route.ts";

/** One thing that is tried. */
export interface MiddlewareCase {
  readonly title: string;
  /** The routes it needs, by name. */
  readonly routes: Readonly<Record<string, (planner: Planner) => RoutePlan>>;
  drive(client: Client): Promise<void>;
}

/** A bucket that does not fill while a suite runs. */
function slow(capacity: number, name: string): Policy {
  return { capacity, tokensPerSecond: `${capacity}/d`, name };
}

const times = <T>(count: number, value: T): T[] => new Array<T>(count).fill(value);
const HOUR_S = 3600;

export const middlewareCases: readonly MiddlewareCase[] = [
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
    title: "writes draft-8 fields by default, on allowed and denied responses",
    routes: { draft8: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "api")) }] }) },
    async drive({ ask }) {
      for (const left of [1, 0, 0]) {
        const { header } = await ask("/draft8");
        same(header("RateLimit-Policy"), '"api";q=2;w=86400', "RateLimit-Policy");
        check(
          new RegExp(`^"api";r=${left};t=\\d+$`).test(header("RateLimit") ?? ""),
          `RateLimit: ${header("RateLimit")}`,
        );
        same(header("RateLimit-Limit"), null, "RateLimit-Limit");
      }
    },
  },
  {
    title: "writes draft-7, draft-6 and legacy fields where they are asked for, and none where they are not",
    routes: {
      draft7: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "seven")), headers: "draft-7" }] }),
      draft6: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "six")), headers: "draft-6" }] }),
      legacy: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "old")), headers: ["draft-8", "legacy"] }] }),
      bare: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "bare")), headers: false }] }),
    },
    async drive({ ask }) {
      for (const left of [1, 0, 0]) {
        const seven = await ask("/draft7");
        same(seven.header("RateLimit-Policy"), "2;w=86400", "draft-7 policy");
        const field = seven.header("RateLimit") ?? "";
        check(new RegExp(`^limit=2, remaining=${left}, reset=\\d+$`).test(field), `draft-7 RateLimit: ${field}`);
        const six = await ask("/draft6");
        same(six.header("RateLimit-Policy"), "2;w=86400", "draft-6 policy");
        same([six.header("RateLimit-Limit"), six.header("RateLimit-Remaining")], ["2", String(left)], "draft-6");
        check(Number(six.header("RateLimit-Reset")) > 0, `draft-6 reset: ${six.header("RateLimit-Reset")}`);
        if (six.status === 429)
          same(six.header("RateLimit-Reset"), six.header("Retry-After"), "the instant of a denial");
        const legacy = await ask("/legacy");
        same(
          [legacy.header("X-RateLimit-Limit"), legacy.header("X-RateLimit-Remaining")],
          ["2", String(left)],
          "legacy",
        );
        const inSeconds = Number(legacy.header("X-RateLimit-Reset")) - hour() / 1000;
        check(inSeconds > 0 && inSeconds <= 24 * HOUR_S + 1, `X-RateLimit-Reset in ${inSeconds} s`);
        check(legacy.header("RateLimit")?.startsWith(`"old";r=${left}`) === true, "draft-8 beside legacy");
      }
      for (const status of [200, 429]) {
        const answer = await ask("/bare");
        same(answer.status, status, "without fields");
        tellsNothing(answer, "without fields");
      }
    },
  },
  {
    title: "counts HEAD and OPTIONS, and never a preflight",
    routes: { methods: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(3, "methods")) }] }) },
    async drive({ ask }) {
      const preflight = {
        method: "OPTIONS",
        headers: { Origin: "https://elsewhere.example", "Access-Control-Request-Method": "POST" },
      };
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
    title: "knows clients by their address, IPv6 by its network, in every spelling",
    routes: { clients: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "clients")) }] }) },
    async drive({ statuses, as, ask, seen }) {
      same(await statuses(3, "/clients", { headers: as("203.0.113.7") }), [200, 200, 429], "one client");
      same(await statuses(1, "/clients", { headers: as("203.0.113.8") }), [200], "another");
      same((await ask("/clients", { headers: as("::ffff:203.0.113.7") })).status, 429, "the first, as IPv6 writes it");
      same((await ask("/clients", { headers: as("::ffff:cb00:7107") })).status, 429, "the first, in hex");
      same((await ask("/clients", { headers: as("2001:db8:1:200::1") })).status, 200, "a host of a network");
      same((await ask("/clients", { headers: as("2001:db8:1:2ff::2") })).status, 200, "another of it");
      same((await ask("/clients", { headers: as("2001:db8:1:21a:1:2:3:4") })).status, 429, "a third of it");
      same((await ask("/clients", { headers: as("2001:db8:1:300::1") })).status, 200, "its neighbour");
      const keys = (await seen("clients")).decisions.map(({ key }) => key);
      check(keys.includes("ip:203.0.113.7") && keys.includes("ip:2001:db8:1:200::/56"), `keys: ${keys}`);
    },
  },
  {
    title: "lets no client choose its bucket by what it writes into headers",
    routes: { choosers: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(3, "choosers")) }] }) },
    async drive({ statuses, as }) {
      const seen: number[] = [];
      for (let i = 0; i < 6; i++) {
        const own = as("203.0.113.40");
        // Proxies add what they saw to the right of what a client sent.
        const typed = [`198.51.100.${i}`, own["X-Forwarded-For"]].filter(Boolean).join(", ");
        const more = {
          "X-Real-IP": `198.51.100.${i}`,
          "Client-IP": `198.51.100.${i}`,
          Forwarded: `for=198.51.100.${i}`,
        };
        seen.push(...(await statuses(1, "/choosers", { headers: { ...more, ...own, "X-Forwarded-For": typed } })));
      }
      same(seen, [200, 200, 200, 429, 429, 429], "one client, whatever it types");
    },
  },
  {
    title: "knows holders of verified API keys by their key, and others by their address",
    routes: {
      holders: ({ limiter, kit: { identity = {} } }) => ({
        guards: [
          {
            limiter: limiter(slow(2, "holders")),
            identity: {
              ...(typeof identity === "string" ? { preset: identity as "cloudflare" } : identity),
              apiKey: { verify: (key) => key.startsWith("right-") },
            },
          },
        ],
      }),
    },
    async drive({ statuses, as, seen }) {
      const holding = (key: string) => ({ headers: { ...as("203.0.113.20"), "X-API-Key": key } });
      same(await statuses(3, "/holders", holding("right-1")), [200, 200, 429], "one key");
      same(await statuses(1, "/holders", holding("right-2")), [200], "another key");
      same(await statuses(2, "/holders", holding("wrong-1")), [200, 200], "wrong keys");
      same(await statuses(1, "/holders", holding("wrong-2")), [429], "one more wrong key from the same address");
      const keys = (await seen("holders")).decisions.map(({ key }) => key).join();
      check(!keys.includes("right-") && !keys.includes("wrong-"), `a key is a secret: ${keys}`);
    },
  },
  {
    title: "tells of every policy of a combination, and takes all or none",
    routes: {
      combined: () => ({
        guards: [{ policies: [slow(3, "small"), { capacity: 5, tokensPerSecond: "1/h", name: "large" }] }],
      }),
    },
    async drive({ ask }) {
      const first = await ask("/combined");
      same(first.header("RateLimit-Policy"), '"small";q=3;w=86400, "large";q=5;w=18000', "RateLimit-Policy");
      const fields = first.header("RateLimit") ?? "";
      check(/^"small";r=2;t=\d+, "large";r=4;t=\d+$/.test(fields), `RateLimit: ${fields}`);
      await ask("/combined");
      await ask("/combined");
      const denied = await ask("/combined");
      same([denied.status, denied.json()["violated-policies"]], [429, ["small"]], "the fourth");
      const left = denied.header("RateLimit") ?? "";
      check(/^"small";r=0;t=\d+, "large";r=2;t=\d+$/.test(left), `a denial takes nothing: ${left}`);
    },
  },
  {
    title: "adds to what other limiters of the same response tell",
    routes: {
      stacked: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(9, "outer")) }, { limiter: limiter(slow(1, "inner")) }],
      }),
      stackedOld: ({ limiter }) => ({
        guards: [
          { limiter: limiter(slow(9, "outer-old")), headers: ["draft-6", "draft-7", "legacy"] },
          { limiter: limiter(slow(3, "inner-old")), headers: ["draft-6", "draft-7", "legacy"] },
        ],
      }),
    },
    async drive({ ask }) {
      for (const status of [200, 429]) {
        const answer = await ask("/stacked");
        same(answer.status, status, "two limiters");
        for (const name of ["RateLimit", "RateLimit-Policy"]) {
          const names = (answer.header(name) ?? "").split(", ").map((item) => item.split(";")[0]);
          same(names.sort(), ['"inner"', '"outer"'], `${name} of ${status}`);
        }
      }
      const old = await ask("/stackedOld");
      same([old.header("RateLimit-Limit"), old.header("RateLimit-Remaining")], ["3", "2"], "draft-6, the tighter");
      same([old.header("X-RateLimit-Limit"), old.header("X-RateLimit-Remaining")], ["3", "2"], "legacy, the tighter");
      check(
        old.header("RateLimit")?.startsWith("limit=3, remaining=2, ") === true,
        `draft-7: ${old.header("RateLimit")}`,
      );
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
      const start = elapsed();
      same(await statuses(4, "/leaky"), times(4, 200), "the queue");
      const took = elapsed() - start;
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
    title: "goes on without the store as the limiter was told to",
    routes: {
      local: ({ broken }) => ({ guards: [{ limiter: broken({ onStoreError: "local" }) }] }),
      open: ({ broken }) => ({ guards: [{ limiter: broken({ onStoreError: "open" }) }] }),
      closed: ({ broken }) => ({ guards: [{ limiter: broken({ onStoreError: "closed" }) }] }),
      throwing: ({ broken }) => ({ guards: [{ limiter: broken({ onStoreError: "throw" }) }] }),
    },
    async drive({ ask, seen }) {
      for (const status of [200, 200, 429]) {
        const answer = await ask("/local");
        same(answer.status, status, "local");
        tellsNothing(answer, "local");
      }
      for (let i = 0; i < 4; i++) {
        const answer = await ask("/open");
        same(answer.status, 200, "open");
        tellsNothing(answer, "open");
      }
      const closed = await ask("/closed");
      same(closed.status, 503, "closed");
      tellsNothing(closed, "closed");
      check(Number(closed.header("Retry-After")) >= 1, `Retry-After: ${closed.header("Retry-After")}`);
      same(closed.header("Cache-Control"), "no-store", "Cache-Control");
      same(closed.json().title, "Temporary Reduced Capacity", "the problem");
      const thrown = await ask("/throwing");
      same(thrown.status, 500, "throw");
      tellsNothing(thrown, "throw");
      const { errors, handled } = await seen("throwing");
      check(errors.length === 1 && errors[0]?.includes("[store-unavailable]") === true, `errors: ${errors}`);
      same(handled, 0, "how often the handler was reached");
    },
  },
  {
    title: "never lets a request through because key or cost failed, unless it was told to",
    routes: {
      keyThrows: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e1")), key: fails }] }),
      keyThrowsNothing: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e8")), key: throwsNothing }] }),
      keyRejectsNothing: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "e9")), key: () => Promise.reject() }],
      }),
      keyThrowsText: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e10")), key: throwsText }] }),
      keyRejects: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e2")), key: async () => fails() }] }),
      keyEmpty: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e3")), key: () => "" }] }),
      costThrows: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e4")), cost: fails }] }),
      costWrong: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "e5")), cost: () => -1 }] }),
      denying: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "e6")), key: fails, onError: () => "deny" }],
      }),
      allowing: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "e7")), key: fails, onError: () => "allow" }],
      }),
    },
    async drive({ ask, seen }) {
      const failing =
        "keyThrows keyThrowsNothing keyThrowsText keyRejects keyRejectsNothing keyEmpty costThrows costWrong".split(
          " ",
        );
      for (const name of failing) {
        const answer = await ask(`/${name}`);
        same(answer.status, 500, name);
        tellsNothing(answer, name);
        const { errors, handled } = await seen(name);
        same([errors.length, handled], [1, 0], `${name}: errors told, handler reached`);
      }
      const denied = await ask("/denying");
      same([denied.status, (await seen("denying")).handled], [503, 0], "deny");
      const allowed = await ask("/allowing");
      same([allowed.status, (await seen("allowing")).handled], [200, 1], "allow");
      tellsNothing(allowed, "allow");
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
    },
  },
  {
    title: "lets the application write the body of a denial, and keeps its head",
    routes: {
      custom: ({ limiter, kit }) => ({
        guards: [
          {
            limiter: limiter(slow(1, "custom")),
            onLimited: ({ call, key }) => kit.answerWith(call, `slow down, ${key}`),
          },
        ],
      }),
    },
    async drive({ ask, as }) {
      const headers = as("203.0.113.30");
      same((await ask("/custom", { headers })).status, 200, "the first");
      const denied = await ask("/custom", { headers });
      same([denied.status, denied.text], [429, "slow down, ip:203.0.113.30"], "the second");
      check(Number(denied.header("Retry-After")) >= 1, `Retry-After: ${denied.header("Retry-After")}`);
      same(
        [denied.header("Cache-Control"), denied.header("RateLimit-Policy")],
        ["no-store", '"custom";q=1;w=86400'],
        "head",
      );
    },
  },
  {
    title: "denies as ever if what writes the body of a denial fails, and tells of it",
    routes: {
      customThrows: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "custom-throws")), onLimited: fails, onError: () => "allow" }],
      }),
      customRejects: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "custom-rejects")), onLimited: async () => fails() }],
      }),
      customPromised: ({ limiter }) => {
        const promised = limiter(slow(1, "custom-promised"));
        return { guards: [{ limiter: async () => promised, onLimited: fails }] };
      },
      customLater: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "custom-later")), onLimited: async () => undefined }],
      }),
    },
    async drive({ ask, seen }) {
      for (const [name, errors] of [
        ["customThrows", 1],
        ["customRejects", 1],
        ["customPromised", 1],
        ["customLater", 0],
      ] as const) {
        same((await ask(`/${name}`)).status, 200, name);
        const denied = await ask(`/${name}`);
        same([denied.status, denied.header("Content-Type")], [429, "application/problem+json"], `${name}, denied`);
        check(Number(denied.header("Retry-After")) >= 1, `${name}: Retry-After: ${denied.header("Retry-After")}`);
        const told = await seen(name);
        same([told.errors.length, told.handled], [errors, 1], `${name}: errors told, handler reached`);
      }
    },
  },
  {
    title: "shows its fields to scripts of other origins, beside those of the application",
    routes: {
      cors: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "cors")) }],
        before: {
          "Access-Control-Allow-Origin": "https://elsewhere.example",
          "Access-Control-Expose-Headers": "X-Own",
        },
      }),
    },
    async drive({ ask }) {
      for (const status of [200, 429]) {
        const answer = await ask("/cors");
        same(
          [answer.status, answer.header("Access-Control-Allow-Origin")],
          [status, "https://elsewhere.example"],
          "CORS",
        );
        const exposed = (answer.header("Access-Control-Expose-Headers") ?? "").split(", ");
        same(exposed.sort(), ["RateLimit", "RateLimit-Policy", "Retry-After", "X-Own"], `what is exposed on ${status}`);
      }
    },
  },
  {
    title: "does not tell one client's figures where others would read them",
    routes: {
      withheld: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(9, "withheld")) }],
        handle: (path) => WITHHELD[path.split("/")[2] ?? ""] ?? {},
      }),
      lastRedirect: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "last")) }],
        handle: () => ({ status: 302, headers: { Location: "/seen" } }),
      }),
      denialNotCached: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "not-cached")) }],
        before: { "Cache-Control": "public, max-age=60", ETag: '"one"', Expires: "Thu, 01 Jan 2099 00:00:00 GMT" },
      }),
    },
    async drive({ ask }) {
      for (const [name, { status = 200 }] of Object.entries(WITHHELD)) {
        const answer = await ask(`/withheld/${name}`);
        same(answer.status, status, name);
        tellsNothing(answer, name);
      }
      check((await ask("/withheld/plain")).header("RateLimit") !== null, "others are told");
      const redirect = await ask("/lastRedirect");
      same(redirect.status, 302, "a redirect");
      tellsNothing(redirect, "a redirect with nothing left");
      await ask("/denialNotCached");
      const denied = await ask("/denialNotCached");
      same([denied.status, denied.header("Cache-Control")], [429, "no-store"], "a denial");
      same([denied.header("ETag"), denied.header("Expires")], [null, null], "what belongs to the other answer");
    },
  },
];

const WITHHELD: Record<string, { status?: number; headers?: Record<string, string>; body?: string }> = {
  public: { headers: { "Cache-Control": "public, max-age=60" } },
  shared: { headers: { "Cache-Control": "s-maxage=60" } },
  unchanged: { status: 304, body: "" },
  unauthorized: { status: 401 },
  forbidden: { status: 403 },
};

function fails(): never {
  throw new Error("on purpose");
}

/** Express takes this for no error at all. */
function throwsNothing(): never {
  throw undefined;
}

/** Express takes this for the wish to leave the route. */
function throwsText(): never {
  throw "route";
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
