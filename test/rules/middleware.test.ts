/** `rateLimit({ rules })`: options, facts, identities and errors. The suite of each server tests the responses. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { abuse, challenge } from "sluice/abuse";
import { getRateLimit, rateLimit } from "sluice/fetch";
import { rateLimit as rateLimitNode } from "sluice/node";
import { defineRules, loadRules } from "sluice/rules";
import { describe, expect, test, vi } from "vitest";

const FALLBACK = { limits: { ip: "100/h" } } as const;
const rules = (list: readonly object[], facts: readonly string[] = [], more: object = {}) =>
  loadRules({ rules: list, fallback: FALLBACK, ...more }, { facts });

/** Sends requests to a handler that responds with 200. */
function app(options: object) {
  const handler = rateLimit(options as never)((_request: Request, _environment: object) => new Response("ok"));
  return (path: string, init: RequestInit = {}, ip = "203.0.113.7") =>
    handler(new Request(`http://localhost${path}`, init), { remoteAddr: { hostname: ip } });
}

describe("the option rules", () => {
  const set = rules([{ name: "read", match: "/read", limits: { ip: "1/h", tenant: "5/h" } }], ["tenant"]);
  const facts = { tenant: () => "acme" };
  test.each<[string, object, RegExp]>([
    ["policy beside it", { rules: set, facts, policy: "5/s" }, /exactly one of .*rules.*policy and rules/],
    ["key beside it", { rules: set, facts, key: () => "k" }, /key can't be combined with rules: identities are named/],
    ["cost beside it", { rules: set, facts, cost: 2 }, /cost can't be combined with rules/],
    ["refundIf beside it", { rules: set, facts, refundIf: "failed" }, /refundIf can't be combined with rules/],
    ["hold beside it", { rules: set, facts, hold: {} }, /hold can't be combined with rules/],
    ["plain data", { rules: { rules: [], fallback: FALLBACK }, facts }, /rules must be a rule set made by defineRules/],
    ["no function for a fact", { rules: set }, /facts\.tenant: missing a function; rule "read" is limited by it/],
    ["a fact that is no function", { rules: set, facts: { tenant: "acme" } }, /facts\.tenant must be a function/],
    [
      "a fact named like an identity",
      { rules: set, facts: { ...facts, ip: () => "x" } },
      /facts\.ip: this name is a built-in/,
    ],
    ["facts without it", { policy: "5/s", facts }, /facts must be left out without rules/],
    [
      "a challenge",
      {
        rules: rules([{ name: "login", match: "/login", preset: "login" }], ["account"]),
        facts: { account: () => "a" },
      },
      /rules\[0\]\.action: "challenge" for "account" needs abuse\(\{ challenge \}\)/,
    ],
    [
      "a penalty",
      { rules: rules([{ name: "mfa", match: "/mfa", preset: "mfa" }]) },
      /rules\[0\]\.penalty: needs abuse\(\{ penalty \}\), which counts strikes/,
    ],
  ])("is refused with %s", (_, options, message) => {
    expect(() => app(options)).toThrow(message);
  });

  test("is checked against every middleware when the rules are replaced", async () => {
    const set = rules([{ name: "read", match: "/read", limits: { ip: "1/h" } }], ["tenant"]);
    const send = app({ rules: set });
    const next = {
      rules: [{ name: "read", match: "/read", limits: { ip: "2/h", tenant: "5/h" } }],
      fallback: FALLBACK,
    };
    await expect(set.replace(next)).rejects.toThrow(/facts\.tenant: missing a function/);
    expect((await send("/read")).status).toBe(200);
    expect((await send("/read")).status).toBe(429);
    await set.replace({ ...next, rules: [{ name: "read", match: "/read", limits: { ip: "2/h" } }] });
    expect((await send("/other")).headers.get("RateLimit-Policy")).toContain("fallback.ip");
  });
});

describe("facts", () => {
  const list = [
    { name: "write", match: "POST /x", limits: { ip: "100/h", tenant: "2/h", "tenant+account": "50/h" } },
    { name: "read", match: "GET /x", limits: { ip: "100/h" } },
  ];

  test("are evaluated if the rule needs them, once per request, with the arguments of the middleware", async () => {
    const tenant = vi.fn((request: Request) => request.headers.get("x-tenant") ?? undefined);
    const account = vi.fn(async () => "ada");
    const send = app({ rules: rules(list, ["tenant", "account"]), facts: { tenant, account } });
    await send("/x");
    expect([tenant.mock.calls.length, account.mock.calls.length]).toEqual([0, 0]);
    const statuses = [];
    for (let i = 0; i < 3; i++) {
      statuses.push((await send("/x", { method: "POST", headers: { "X-Tenant": "acme" } })).status);
    }
    expect(statuses).toEqual([200, 200, 429]);
    expect([tenant.mock.calls.length, account.mock.calls.length]).toEqual([3, 3]);
  });

  test("that are promises are awaited together", async () => {
    let started = 0;
    const gate = () =>
      new Promise<string>((resolve) => (++started === 2 ? resolve("x") : setTimeout(resolve, 20, "x")));
    const both: number[] = [];
    const fact = () => gate().finally(() => both.push(started));
    const set = rules([{ name: "r", match: "/x", limits: { ip: "9/h", a: "9/h", b: "9/h" } }], ["a", "b"]);
    expect((await app({ rules: set, facts: { a: fact, b: fact } })("/x")).status).toBe(200);
    expect(both).toEqual([2, 2]);
  });

  test.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("no session");
      },
    ],
    ["rejects", () => Promise.reject(new Error("no session"))],
    ["returns an object", () => ({ id: 1 })],
    ["returns NaN", () => Number.NaN],
  ])("that one %s goes to onError and charges nothing", async (_, tenant) => {
    const errors: unknown[] = [];
    const set = rules(list, ["tenant", "account"]);
    const facts = { tenant, account: () => "ada" };
    const onError = (error: unknown) => void errors.push(error);
    const send = app({ rules: set, facts, onError });
    expect((await send("/x", { method: "POST" })).status).toBe(500);
    expect(errors).toHaveLength(1);
    expect((await send("/x")).headers.get("RateLimit")).toContain('"read.ip";r=99');
  });
});

describe("responses", () => {
  test("reject a path that matches too many rules with 400, and charge nothing", async () => {
    const limits = Object.fromEntries(
      ["ip", "network", "client", "global"].map((per) => [per, ["90/h", "91/h", "92/h"]]),
    );
    const send = app({
      rules: rules([
        { name: "login", match: "/v1/login", limits },
        { name: "other", match: "/v1/:page", limits },
      ]),
    });
    const response = await send("/v1/%6cogin");
    expect([response.status, response.headers.get("Cache-Control")]).toEqual([400, "no-store"]);
    expect(await response.json()).toEqual({
      type: "about:blank",
      title: "Bad Request",
      status: 400,
      detail: "The path of this request is ambiguous.",
    });
    expect((await send("/v1/login")).headers.get("RateLimit")).toContain('"login.ip";r=89');
    expect((await send("/v1/x")).headers.get("RateLimit")).toContain('"other.ip";r=89');
  });

  test("have partition keys of each policy's own key", async () => {
    const partitionKey = (key: string) => Buffer.from(key).toString("base64");
    const set = rules([{ name: "r", match: "/*", limits: { ip: "9/h", tenant: "9/h" } }], ["tenant"]);
    const send = app({ rules: set, facts: { tenant: () => "acme" }, headers: { partitionKey } });
    const field = (await send("/")).headers.get("RateLimit-Policy") ?? "";
    expect(field).toContain(`"r.ip";q=9;w=3600;pk=:${partitionKey("ip:203.0.113.7")}:`);
    expect(field).toContain(`"r.tenant";q=9;w=3600;pk=:${partitionKey("tenant:acme")}:`);
  });

  test("are counted and never rejected in shadow mode", async () => {
    const decisions: (boolean | string | undefined)[][] = [];
    const send = app({
      rules: rules([{ name: "r", match: "/*", limits: { ip: "1/h" } }]),
      mode: "shadow",
      onDecision: ({ decision, rule }: { decision: { allowed: boolean }; rule: string }) =>
        decisions.push([decision.allowed, rule]),
    });
    expect([(await send("/")).status, (await send("/")).status]).toEqual([200, 200]);
    expect(decisions).toEqual([
      [true, "r"],
      [false, "r"],
    ]);
  });

  test("of TypeScript rules type-check facts", async () => {
    const typed = defineRules({
      rules: [{ name: "r", match: "/*", limits: { ip: "9/h", tenant: "1/h" } }],
      fallback: FALLBACK,
    });
    const limited = rateLimit({
      rules: typed,
      facts: { tenant: (request) => request.headers.get("x-t") ?? undefined },
    });
    const handler = limited((_request: Request, _environment: object) => new Response("ok"));
    expect(
      await handler(new Request("http://localhost/"), { remoteAddr: { hostname: "::1" } }).then(({ status }) => status),
    ).toBe(200);
  });
});

test("a fact that fails after the request was decided without it causes no unhandled rejection", async () => {
  const unhandled = vi.fn();
  process.on("unhandledRejection", unhandled);
  const set = rules(
    [
      { name: "bots", match: "/when", when: { bot: "likely", region: "eu" }, limits: { ip: "1/h" } },
      { name: "joined", match: "/joined", limits: { ip: "5/h", "bot+region": "1/h" } },
      { name: "thrown", match: "/thrown", limits: { ip: "5/h", bot: "1/h", broken: "1/h" } },
    ],
    ["bot", "region", "broken"],
  );
  const facts = {
    bot: () => Promise.reject(new Error("on purpose")),
    region: () => undefined,
    broken: () => {
      throw new Error("on purpose");
    },
  };
  const send = app({ rules: set, facts, onError: () => "deny" });
  const responses = [await send("/when"), await send("/joined"), await send("/thrown")];
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 503]);
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

test("a handler can settle a fact whose limit does not apply to the caller", async () => {
  const set = rules(
    [
      { name: "ai", match: "/ai", limits: { ip: "5/h", tenant: "9/h of tokens" }, hold: "5m" },
      { name: "slow", match: "/slow", limits: { ip: "5 concurrent", tenant: "9/h of tokens" }, hold: "5m" },
    ],
    ["tenant", "tokens"],
  );
  const handler = rateLimit({ rules: set, facts: { tenant: () => undefined, tokens: () => 5 } })(
    (request: Request, _environment: object) => {
      const settle = getRateLimit(request)?.settle;
      settle?.({ tokens: 7 });
      expect(() => settle?.({ token: 7 })).toThrow(/held facts, which are tokens/);
      return new Response(typeof settle);
    },
  );
  for (const path of ["/ai", "/slow"]) {
    const response = await handler(new Request(`http://localhost${path}`), { remoteAddr: { hostname: "203.0.113.7" } });
    expect([response.status, await response.text()]).toEqual([200, "function"]);
  }
});

describe("an answer to a path that matches too many rules", () => {
  const limits = { ip: Array.from({ length: 9 }, (_, i) => `${i + 1}/h`) };
  const set = rules([
    { name: "one", match: "/a/:id", limits },
    { name: "all", match: "/a", limits },
  ]);
  const provider = {
    name: "test",
    siteKey: "site",
    scriptUrl: "https://captcha.example/api.js",
    frameOrigin: "https://captcha.example",
    tokenField: "test-response",
    verify: async () => ({ ok: true, codes: [] }),
  };
  const prevention = abuse({ challenge: challenge({ provider, secret: ["0123456789abcdef0123456789abcdef"] }) });
  const headers = { "Sluice-Challenge-Token": "solved", "User-Agent": "test" };

  test("has the clearance of a solved challenge with Response", async () => {
    const response = await app({ rules: set, abuse: prevention })("/a/", { headers });
    expect([response.status, response.headers.has("Sluice-Clearance")]).toEqual([400, true]);
  });

  test("has the clearance of a solved challenge on Node", async () => {
    const limit = rateLimitNode({ rules: set, abuse: prevention });
    const server = createServer(limit((_request, response) => void response.end("ok")));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const response = await fetch(`http://127.0.0.1:${port}/a/`, { headers });
    expect([response.status, response.headers.has("Sluice-Clearance")]).toEqual([400, true]);
    await new Promise((resolve) => server.close(resolve));
  });
});
