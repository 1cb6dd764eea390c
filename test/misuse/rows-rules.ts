/** Mistakes with rules: limits that never apply, and call forms that look right. */
import express from "express";
import { hold, memoryRateLimiter, memoryStore } from "sluice";
import { abuse } from "sluice/abuse";
import { getRateLimit, idempotent, rateLimit } from "sluice/express";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { defineRules, loadRules } from "sluice/rules";
import { listening, sendRequest } from "../frameworks/servers.ts";
import { type Row, see, warning, wrong } from "./row.ts";

const fallback = { limits: { ip: "1000/m" } } as const;
const never = (limit: string, rule: string, fact: string): string =>
  `${limit} of rule "${rule}" applied to none of the first 100 matching requests, because ${fact} was unknown.`;

/** Sends 100 logins to an app whose rules are mounted before or after the body parser. */
async function login(rules: object, ...middleware: unknown[]): Promise<readonly number[]> {
  const app = express();
  const facts = { account: (request: express.Request) => request.body?.email };
  for (const one of middleware) app.use(wrong(one === "rules" ? rateLimit(wrong({ rules, facts })) : one));
  app.use((_request, response) => void response.sendStatus(401));
  const url = await listening(app);
  const body = JSON.stringify({ email: "ada@example.com" });
  const headers = { "content-type": "application/json" };
  const statuses: number[] = [];
  for (let i = 0; i < 100; i++)
    statuses.push((await sendRequest(`${url}/login`, { method: "POST", body, headers })).status);
  return [statuses.filter((status) => status === 401).length];
}

export const ruleRows: readonly Row[] = [
  {
    number: 74,
    what: "rules per tenant, and callers without one",
    before: "F",
    grade: "A",
    cases: [
      {
        code: 'limits: { tenant: "60/m", ip: "20/s" }, called without a tenant',
        async run() {
          const rules = defineRules({
            rules: [{ name: "api", match: "/v1/*", limits: { tenant: "60/m", ip: "1000/m" } }],
            fallback,
          });
          for (let i = 0; i < 100; i++) await rules.consume({ method: "GET", path: "/v1/a", ip: "203.0.113.7" });
        },
        warns: warning(
          "limit_not_applied",
          `${never('Limit "api.tenant"', "api", "tenant")} Return it from facts.tenant, or limit callers without it: without: { "tenant": "5/m" }.`,
        ),
      },
    ],
  },
  {
    number: 75,
    what: "rules mounted before the body parser",
    before: "F",
    grade: "A",
    cases: [
      {
        code: "app.use(rateLimit({ rules, facts: { account: (request) => request.body?.email } })); app.use(express.json())",
        run: () =>
          login(
            defineRules({
              rules: [{ name: "login", match: "POST /login", limits: { ip: "1000/m", account: "5/15m log" } }],
              fallback,
            }),
            "rules",
            express.json(),
          ),
        warns: warning(
          "limit_not_applied",
          `${never('Limit "login.account"', "login", "account")} facts.account reads the body, which is not parsed yet: mount the body parser, such as express.json(), before rateLimit; in Fastify, use the hook "preHandler".`,
        ),
      },
      {
        code: 'the same with preset: "login": 5 attempts, as after the parser',
        run: () =>
          login(
            defineRules({
              rules: [{ name: "login", match: "POST /login", preset: "login", action: "deny", penalty: false }],
              fallback,
            }),
            "rules",
            express.json(),
          ),
        returns: [5],
      },
    ],
  },
  {
    number: 76,
    what: "a penalty that no rule strikes",
    before: "F",
    grade: "A",
    cases: [
      {
        code: "rateLimit({ rules, abuse: abuse({ penalty: { strikes: 3 } }) }), and no rule has penalty: true",
        run: () =>
          rateLimit({ rules: defineRules({ rules: [], fallback }), abuse: abuse({ penalty: { strikes: 3 } }) }),
        throws: see(
          "invalid-option",
          "abuse({ penalty }) would never block a client, because no rule has penalty: true. Set it in the rules whose denials are strikes. If only block(), strike() or another middleware use the penalty, set penalty: false in the fallback.",
        ),
      },
    ],
  },
  {
    number: 77,
    what: "idempotent after rateLimit",
    before: "F",
    grade: "A",
    cases: [
      {
        code: 'app.post("/", rateLimit({ policy }), idempotent({ store, scope }), handler)',
        async run() {
          const app = express();
          const once = idempotent({ store: memoryIdempotencyStore(), scope: () => "ada" });
          app.post("/", express.json(), rateLimit({ policy: "9/m" }), once, (_request, response) => {
            response.send("ok");
          });
          const url = await listening(app);
          await sendRequest(url, { method: "POST", headers: { "Idempotency-Key": "a" } });
        },
        warns: warning(
          "misuse",
          "idempotent runs after rateLimit, so retries are charged and may get a 429 in place of the stored response. Mount idempotent before rateLimit.",
        ),
      },
    ],
  },
  {
    number: 78,
    what: "the usage of a model in place of a number",
    before: "F",
    grade: "A",
    cases: [
      ...[{ prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 }, {}].map((usage) => ({
        code: `hold.settle(usage) with ${JSON.stringify(usage)}`,
        async run() {
          const decision = await hold(memoryRateLimiter("100/m"), "k", 10);
          if (decision.allowed) await decision.hold.settle(wrong(usage));
        },
        throws: see(
          "invalid-cost",
          "actual must be a whole number from 0 to 2147483647, such as usage.total_tokens, but received an object.",
        ),
      })),
      {
        code: "getRateLimit(request).settle(response.usageMetadata)",
        async run() {
          const errors: string[] = [];
          const app = express();
          app.use(rateLimit({ policy: "100/m", hold: { estimate: 10 } }), (request, response) => {
            try {
              getRateLimit(request)?.settle?.(wrong({ totalTokenCount: 5 }));
            } catch (error) {
              errors.push((error as Error).message);
            }
            response.send("ok");
          });
          await sendRequest(await listening(app));
          return { error: errors[0] };
        },
        returns: {
          error: see(
            "invalid-cost",
            "actual must be a whole number from 0 to 2147483647, such as usage.total_tokens, but received an object.",
          ),
        },
      },
    ],
  },
  {
    number: 79,
    what: "patterns with a trailing slash, a lower-case method or a * in the middle",
    before: "B",
    grade: "A",
    cases: [
      ["POST /login/", 'a path has no trailing slash: write "POST /login"'],
      ["post /q", 'methods are in upper case: write "POST /q"'],
      ["/v1/*/x", '"*" is the last segment, and ":name" is any one segment: write "/v1/:name/x"'],
    ].map(([match = "", advice = ""]) => ({
      code: `match: "${match}"`,
      run: () => defineRules({ rules: [{ name: "a", match, limits: { ip: "1/s" } }], fallback }),
      throws: see("invalid-rules", `rules[0].match: "${match}" is not a pattern; ${advice}.`),
    })),
  },
  {
    number: 80,
    what: "a misspelt fact",
    before: "B",
    grade: "A",
    cases: [
      {
        code: "facts: { tenent: (request) => request.tenant }",
        run: () => {
          const limits = { ip: "9/s", tenant: "1/s" } as const;
          const rules = defineRules({ rules: [{ name: "a", match: "/a", limits }], fallback });
          return rateLimit(wrong({ rules, facts: { tenent: () => "acme" } }));
        },
        throws: see(
          "invalid-option",
          'facts.tenant: missing a function; rule "a" is limited by it. No rule uses facts.tenent; did you mean facts.tenant?',
        ),
      },
    ],
  },
  {
    number: 81,
    what: "loadRules without its second argument",
    before: "C",
    grade: "A",
    cases: [
      {
        code: "loadRules(json)",
        run: () => wrong(loadRules)({ rules: [], fallback }),
        throws: see(
          "invalid-option",
          'loadRules needs the names of the facts that the application provides. Write loadRules(json, { facts: ["tenant", "plan"] }), or { facts: [] } without any.',
        ),
      },
    ],
  },
  {
    number: 82,
    what: "a duration with a space",
    before: "B",
    grade: "A",
    cases: [
      {
        code: 'block("ip:203.0.113.7", "1 day")',
        async run() {
          const prevention = abuse({ penalty: {}, store: memoryStore() });
          await prevention.block("ip:203.0.113.7", "1 day");
          return Math.round(((await prevention.status("ip:203.0.113.7"))?.retryAfterMs ?? 0) / 3_600_000);
        },
        returns: 24,
      },
      {
        code: 'block("ip:203.0.113.7", "1 week")',
        run: () => abuse({ penalty: {}, store: memoryStore() }).block("ip:203.0.113.7", wrong("1 week")),
        throws: see(
          "invalid-option",
          'duration must be a number of milliseconds, or text such as "250ms", "1s", "5m", "1h" or "30d", but received "1 week".',
        ),
      },
    ],
  },
];
