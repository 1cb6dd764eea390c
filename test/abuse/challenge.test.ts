/** Limits that end in a challenge, through a middleware with rules: denied, solved, admitted, and counted again. */
import { type LimiterEvent, memoryStore } from "sluice";
import { type AbuseOptions, abuse, type ChallengeProvider, challenge } from "sluice/abuse";
import { rateLimit } from "sluice/fetch";
import { loadRules } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

const ADA = "203.0.113.7";
const SECRET = "0123456789abcdef0123456789abcdef";

/** A provider that accepts tokens which start with "good", each once. */
function provider(): ChallengeProvider & { verified: string[]; isDown: boolean } {
  const seen = new Set<string>();
  return {
    name: "stand-in",
    siteKey: "site",
    scriptUrl: "https://captcha.example/api.js",
    frameOrigin: "https://captcha.example",
    tokenField: "stand-in-response",
    verified: [],
    isDown: false,
    async verify(token, { ip }) {
      if (this.isDown) throw new Error("connection refused");
      this.verified.push(`${token} ${ip}`);
      const ok = token.startsWith("good") && !seen.has(token);
      seen.add(token);
      return { ok, codes: ok ? [] : ["invalid-input-response"] };
    },
  };
}

type Headers = Record<string, string>;

function appWith(rule: object, options: Omit<AbuseOptions, "challenge"> & { ttl?: number } = {}) {
  const clock = fakeClock();
  const { ttl = 1_800_000, ...more } = options;
  const data = {
    rules: [{ name: "login", match: "POST /login", ...rule }],
    fallback: { limits: { ip: "100/h" } },
  };
  const rules = loadRules(data, { store: memoryStore({ clock }), facts: ["account"] });
  const captcha = provider();
  const decisions: string[] = [];
  const events: LimiterEvent[] = [];
  const prevention = abuse({ ...more, challenge: challenge({ provider: captcha, secret: [SECRET], ttl }) });
  const handler = rateLimit({
    rules,
    abuse: prevention,
    identity: { trustedProxies: 1, header: "x-client" },
    facts: { account: (request: Request) => request.headers.get("x-account") ?? undefined },
    onDecision: ({ decision, rule }) => decisions.push(`${rule} ${decision.policy} ${decision.allowed}`),
    onEvent: (event) => events.push(event),
  })(() => new Response("welcome"));
  const send = async (to: string, headers: Headers = {}, body?: string): Promise<Response> => {
    const [method = "", path] = to.split(" ");
    const all = { "x-client": ADA, "user-agent": "Firefox", ...headers };
    return handler(new Request(`http://localhost${path}`, { method, headers: all, body: body ?? null }));
  };
  const statuses = async (count: number, headers?: Headers): Promise<number[]> => {
    const seen: number[] = [];
    for (let i = 0; i < count; i++) seen.push((await send("POST /login", headers)).status);
    return seen;
  };
  /** Solves a challenge, and returns the cookie. */
  const solve = async (token: string, headers?: Headers): Promise<Headers> => {
    const response = await send(
      "POST /.sluice/clearance",
      { "content-type": "application/json", ...headers },
      JSON.stringify({ token }),
    );
    expect(response.status).toBe(204);
    const [cookie = ""] = (response.headers.get("set-cookie") ?? "").split(";");
    return { cookie };
  };
  return { clock, captcha, decisions, events, prevention, send, statuses, solve };
}

const repeat = (status: number, count: number): number[] => new Array<number>(count).fill(status);

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 }));
afterEach(() => void vi.useRealTimers());

describe("a limit with the action challenge", () => {
  const rule = { limits: { account: "3/h log", ip: "100/h" }, action: { account: "challenge" } };
  const account = { "x-account": "ada" };

  it("rejects with 403 and a challenge, and calls onDecision", async () => {
    const { send, statuses, decisions } = appWith(rule);
    expect(await statuses(3, account)).toEqual(repeat(200, 3));
    const response = await send("POST /login", account);
    expect(response.status).toBe(403);
    expect(Object.fromEntries(response.headers)).toEqual({
      "sluice-mitigated": "challenge",
      "cache-control": "no-store",
      "content-type": "application/problem+json",
      "access-control-expose-headers": "Sluice-Mitigated",
    });
    expect(await response.json()).toEqual({
      type: "about:blank",
      title: "Forbidden",
      status: 403,
      code: "challenge-required",
      rule: "login",
      challenge: { provider: "stand-in", siteKey: "site", action: "sluice", path: "/.sluice/clearance" },
    });
    expect(decisions.at(-1)).toBe("login login.account false");
  });

  it("sends a page to browsers", async () => {
    const { send, statuses } = appWith(rule);
    await statuses(3, account);
    const accept = { accept: "text/html,*/*", "sec-fetch-mode": "navigate" };
    const response = await send("POST /login", { ...account, ...accept });
    expect([response.status, response.headers.get("content-type")]).toEqual([403, "text/html; charset=utf-8"]);
    expect(await response.text()).toContain("captcha.example/api.js");
  });

  it("gives a second budget per clearance and per IP address, and no exemption", async () => {
    const { statuses, solve, send } = appWith(rule);
    await statuses(3, account);
    const first = { ...account, ...(await solve("good1")) };
    const allowed = await send("POST /login", first);
    expect(allowed.headers.get("ratelimit-policy")).toBe(
      '"login.ip";q=100;w=3600, "login.cleared.clearance";q=3;w=3600, "login.cleared.ip";q=3;w=3600',
    );
    expect(await statuses(3, first)).toEqual([200, 200, 429]);
    // Another clearance of the same address does not help.
    expect(await statuses(1, { ...account, ...(await solve("good2")) })).toEqual([429]);
    // Another address of the network shares the budget of the clearance.
    expect(await statuses(1, { ...first, "x-client": "203.0.113.8" })).toEqual([429]);
  });

  it("uses withClearance, which is counted per clearance and per IP address as well", async () => {
    const { statuses, solve, send } = appWith({ ...rule, withClearance: { account: "10/h", ip: "4/h" } });
    await statuses(3, account);
    const cleared = { ...account, ...(await solve("good")) };
    const response = await send("POST /login", cleared);
    expect(response.headers.get("ratelimit-policy")).toBe(
      '"login.ip";q=100;w=3600, "login.cleared.account";q=10;w=3600, "login.cleared.ip";q=4;w=3600, ' +
        '"login.cleared.clearance";q=10;w=3600, "login.cleared.clearance.2";q=4;w=3600',
    );
    expect(await statuses(4, cleared)).toEqual([200, 200, 200, 429]);
  });

  it("carries the override of a challenged limit over to its second budget", async () => {
    const data = {
      rules: [{ name: "login", match: "/login", limits: { ip: "1/h" }, action: "challenge" }],
      fallback: { limits: { ip: "9/h" } },
      overrides: { [`ip:${ADA}`]: { "login.ip": "3/h" } },
    };
    const rules = loadRules(data, { facts: [] });
    const prevention = abuse({ challenge: challenge({ provider: provider(), secret: [SECRET] }) });
    const handler = rateLimit({ rules, abuse: prevention, identity: { trustedProxies: 1, header: "x-client" } })(
      () => new Response("ok"),
    );
    const send = async (headers: Headers = {}): Promise<Response> =>
      handler(new Request("http://localhost/login", { headers: { "x-client": ADA, "user-agent": "F", ...headers } }));
    const seen = [];
    for (let i = 0; i < 4; i++) seen.push((await send()).status);
    expect(seen).toEqual([200, 200, 200, 403]);
    const cleared = await send({ "sluice-challenge-token": "good" });
    expect(cleared.headers.get("ratelimit-policy")).toBe(
      '"login.cleared.clearance@override";q=3;w=3600, "login.cleared.ip@override";q=3;w=3600',
    );
  });

  it("is left to other middleware in shadow mode", async () => {
    const captcha = provider();
    const prevention = abuse({ challenge: challenge({ provider: captcha, secret: [SECRET] }) });
    const limit = (mode: "shadow" | "enforce") => {
      const data = {
        rules: [{ name: mode, match: "/login", limits: { ip: "1/h" }, action: "challenge" }],
        fallback: { limits: { ip: "9/h" } },
      };
      const rules = loadRules(data, { facts: [] });
      return rateLimit({ rules, mode, abuse: prevention, identity: { trustedProxies: 1, header: "x-client" } });
    };
    const handler = limit("shadow")(limit("enforce")(() => new Response("ok")));
    const solution = new Request("http://localhost/.sluice/clearance", {
      method: "POST",
      headers: { "x-client": ADA, "content-type": "application/json" },
      body: JSON.stringify({ token: "good" }),
    });
    expect((await handler(solution)).status).toBe(204);
    expect(captcha.verified).toHaveLength(1);
  });

  it("denies with 429 if a limit that denies is exceeded as well", async () => {
    const { statuses, send } = appWith({ limits: { account: "2/h", ip: "2/h" }, action: { account: "challenge" } });
    expect(await statuses(3, account)).toEqual([200, 200, 429]);
    expect(await (await send("POST /login", account)).json()).toMatchObject({
      "violated-policies": ["login.account", "login.ip"],
    });
    // From another address, only the account is exceeded.
    expect(await statuses(1, { ...account, "x-client": "198.51.100.9" })).toEqual([403]);
  });

  it("counts strikes, and a block wins over the challenge", async () => {
    const { statuses, prevention } = appWith({ ...rule, penalty: true }, { penalty: { strikes: 2 } });
    await statuses(3, account);
    // The second challenge that is not solved is the second strike, which blocks.
    expect(await statuses(3, account)).toEqual([403, 429, 429]);
    expect(await prevention.status(`ip:${ADA}`)).toMatchObject({ strikes: 2 });
  });

  it("exchanges a token for a clearance in the same request", async () => {
    const { send, statuses, captcha } = appWith(rule);
    await statuses(3, account);
    const response = await send("POST /login", { ...account, "sluice-challenge-token": "good" });
    expect([response.status, await response.text()]).toEqual([200, "welcome"]);
    expect(response.headers.get("set-cookie")).toMatch(/^__Host-sluice-clearance=v2\./);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(captcha.verified).toEqual([`good ${ADA}`]);
    const [cookie = ""] = (response.headers.get("set-cookie") ?? "").split(";");
    expect(await statuses(1, { ...account, cookie })).toEqual([200]);
    // A token of a request with a clearance is not verified.
    expect(await statuses(1, { ...account, cookie, "sluice-challenge-token": "good9" })).toEqual([200]);
    expect(captcha.verified).toHaveLength(1);
    const refused = await send("POST /login", { ...account, "sluice-challenge-token": "good" });
    expect([refused.status, await refused.json()]).toMatchObject([403, { code: "challenge-failed" }]);
  });

  it("verifies a token once for two middlewares", async () => {
    const captcha = provider();
    const prevention = abuse({ challenge: challenge({ provider: captcha, secret: [SECRET] }) });
    const limit = (name: string) => {
      const data = {
        rules: [{ name, match: "/*", limits: { ip: "1/h" }, action: "challenge" }],
        fallback: { limits: { ip: "100/h" } },
      };
      const rules = loadRules(data, { facts: [], store: memoryStore(), prefix: name });
      return rateLimit({ rules, abuse: prevention, identity: { trustedProxies: 1, header: "x-client" } });
    };
    const handler = limit("outer")(limit("inner")(() => new Response("welcome")));
    const send = async (headers: Headers = {}): Promise<number> => {
      const all = { "x-client": ADA, "user-agent": "Firefox", ...headers };
      return (await handler(new Request("http://localhost/", { headers: all }))).status;
    };
    expect([await send(), await send()]).toEqual([200, 403]);
    expect(await send({ "sluice-challenge-token": "good" })).toBe(200);
    expect(captcha.verified).toHaveLength(1);
  });

  it("sets the cookie also if the request is rejected by another limit", async () => {
    const { send, statuses } = appWith({ limits: { account: "3/h", ip: "3/h" }, action: { account: "challenge" } });
    await statuses(3, account);
    const response = await send("POST /login", { ...account, "sluice-challenge-token": "good" });
    expect([response.status, response.headers.has("set-cookie")]).toEqual([429, true]);
  });

  it("accepts no clearance that has expired, of another network or another browser", async () => {
    const { statuses, solve } = appWith(rule, { ttl: 60_000 });
    await statuses(3, account);
    const cleared = { ...account, ...(await solve("good")) };
    expect(await statuses(1, { ...cleared, "x-client": "198.51.100.9" })).toEqual([403]);
    expect(await statuses(1, { ...cleared, "user-agent": "curl" })).toEqual([403]);
    vi.setSystemTime(Date.now() + 59_999);
    expect(await statuses(1, cleared)).toEqual([200]);
    vi.setSystemTime(Date.now() + 1);
    expect(await statuses(1, cleared)).toEqual([403]);
  });

  it("denies with 429 while the provider is down, and reports it", async () => {
    const { send, captcha, events, statuses } = appWith(rule);
    await statuses(3, account);
    captcha.isDown = true;
    const response = await send("POST /login", { ...account, "sluice-challenge-token": "good" });
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "30"]);
    expect(events).toMatchObject([{ type: "provider-down", provider: "stand-in" }]);
    expect(await statuses(1, account)).toEqual([403]);
  });

  it("verifies at most 20 tokens per minute and IP address", async () => {
    const { send, captcha } = appWith(rule);
    const tokens = Array.from({ length: 25 }, (_, i) => `bad${i}`);
    const seen = [];
    for (const token of tokens) seen.push((await send("POST /login", { "sluice-challenge-token": token })).status);
    expect(seen).toEqual([...repeat(403, 20), ...repeat(429, 5)]);
    expect(captcha.verified).toHaveLength(20);
    const other = await send("POST /login", { "sluice-challenge-token": "good", "x-client": "198.51.100.9" });
    expect(other.status).toBe(200);
  });
});
