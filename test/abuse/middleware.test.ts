/** `rateLimit({ abuse })`: the order of its steps, penalties without rules, traps, the tarpit, signals and wrong options. */
import { concurrency, createLimiter, memoryStore, type RateLimiter, SluiceError, type Store } from "sluice";
import { type Abuse, type AbuseOptions, abuse, ipList } from "sluice/abuse";
import { type FetchRateLimitOptions, rateLimit } from "sluice/fetch";
import { loadRules } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { afterEach, describe, expect, it, vi } from "vitest";

const IP = "203.0.113.7";

/** A handler behind `rateLimit`, and a function that sends it requests. */
function appWith(options: FetchRateLimitOptions) {
  let handled = 0;
  const handler = rateLimit({ identity: { trustedProxies: 1, header: "x-client" }, ...options })(() => {
    handled++;
    return new Response("ok");
  });
  const send = (to = "GET /", headers: Record<string, string> = {}): Promise<Response> => {
    const [method = "", path] = to.split(" ");
    const request = new Request(`http://localhost${path}`, { method, headers: { "x-client": IP, ...headers } });
    return Promise.resolve(handler(request));
  };
  const statuses = async (count: number, to?: string, headers?: Record<string, string>): Promise<number[]> => {
    const seen: number[] = [];
    for (let i = 0; i < count; i++) {
      const response = await send(to, headers);
      await response.text();
      seen.push(response.status);
    }
    return seen;
  };
  return { send, statuses, handled: () => handled };
}

/** Rules with one limit per IP address for every path. */
function rulesWith(rule: object, options: object = {}) {
  const data = {
    rules: [{ name: "all", match: "/*", limits: { ip: "3/h" }, ...rule }],
    fallback: { limits: { ip: "100/h" } },
  };
  return loadRules(data, { facts: ["account"], ...options });
}

const repeat = (status: number, count: number): number[] => new Array<number>(count).fill(status);

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("lists", () => {
  const isFrom = (name: string) => (request: Request) => request.headers.get("x-name") === name;

  it("reject with 403 without a reason, and count nothing", async () => {
    const { send, statuses, handled } = appWith({ policy: "1/h", abuse: abuse({ deny: [isFrom("mallory")] }) });
    const response = await send("GET /", { "x-name": "mallory" });
    expect(response.status).toBe(403);
    expect(Object.fromEntries(response.headers)).toEqual({
      "cache-control": "no-store",
      "content-type": "application/problem+json",
    });
    expect(await response.json()).toEqual({ type: "about:blank", title: "Forbidden", status: 403 });
    const asText = await send("GET /", { "x-name": "mallory", accept: "text/plain" });
    expect([asText.headers.get("content-type"), await asText.text()]).toEqual([
      "text/plain; charset=utf-8",
      "Forbidden\n",
    ]);
    expect(handled()).toBe(0);
    expect(await statuses(2)).toEqual([200, 429]);
  });

  it("let allowed requests pass uncounted, and deny takes precedence", async () => {
    const both = abuse({ deny: [isFrom("mallory")], allow: [isFrom("ada"), async () => false, isFrom("mallory")] });
    const { statuses, send } = appWith({ policy: "1/h", abuse: both });
    expect(await statuses(5, "GET /", { "x-name": "ada" })).toEqual(repeat(200, 5));
    expect((await send("GET /", { "x-name": "ada" })).headers.get("ratelimit")).toBeNull();
    expect(await statuses(1, "GET /", { "x-name": "mallory" })).toEqual([403]);
    expect(await statuses(2)).toEqual([200, 429]);
  });

  it("come after skip, and apply to preflights", async () => {
    const everyone = abuse({ deny: [() => true] });
    const { statuses } = appWith({
      policy: "1/h",
      abuse: everyone,
      skip: (request) => request.url.endsWith("/healthz"),
    });
    expect(await statuses(1, "GET /healthz")).toEqual([200]);
    const preflight = { origin: "https://app.example", "access-control-request-method": "PUT" };
    expect(await statuses(1, "OPTIONS /", preflight)).toEqual([403]);
    expect(await statuses(1)).toEqual([403]);
  });

  it("let preflights pass in shadow mode, and those without an IP address", async () => {
    const preflight = { origin: "https://app.example", "access-control-request-method": "PUT", "x-client": "unknown" };
    const shadow = appWith({ policy: "1/h", mode: "shadow", abuse: abuse({ deny: [() => true] }) });
    expect(await shadow.statuses(2, "OPTIONS /", preflight)).toEqual([200, 200]);
    const { statuses } = appWith({ policy: "1/h", abuse: abuse({ penalty: [{}, { per: "network" }] }) });
    expect(await statuses(2, "OPTIONS /", preflight)).toEqual([200, 200]);
  });

  it("reject nothing in shadow mode", async () => {
    const { statuses } = appWith({ policy: "1/h", mode: "shadow", abuse: abuse({ deny: [() => true] }) });
    expect(await statuses(3)).toEqual(repeat(200, 3));
  });

  it("pass errors of functions to onError", async () => {
    const failing = abuse({
      allow: [
        () => {
          throw new Error("down");
        },
      ],
    });
    const onError = vi.fn(() => "deny" as const);
    const { statuses } = appWith({ policy: "9/h", onError, abuse: failing });
    expect(await statuses(1)).toEqual([503]);
    expect(onError.mock.calls[0]?.[0 as never]).toMatchObject({ message: "down" });
  });
});

describe("a penalty without rules", () => {
  it("counts every denial as a strike, for a policy, several policies, a limiter and limits", async () => {
    const limiter = createLimiter({ policy: "2/h", store: memoryStore() });
    const sources: FetchRateLimitOptions[] = [
      { policy: "2/h" },
      { policies: ["2/h", "9/d"] },
      { limiter },
      { limits: [{ limiter: createLimiter({ policy: "2/h", store: memoryStore() }) }] },
    ];
    for (const source of sources) {
      const prevention = abuse({ penalty: { strikes: 3, block: "1m" } });
      const { statuses, send } = appWith({ ...source, abuse: prevention });
      expect(await statuses(2)).toEqual(repeat(200, 2));
      const denied = await send();
      expect([denied.status, denied.headers.get("ratelimit-policy")]).not.toContain("penalty");
      expect(await denied.json()).toMatchObject({ title: "Quota Exceeded" });
      expect(await prevention.status(`ip:${IP}`)).toBeUndefined();
      expect(await statuses(2)).toEqual(repeat(429, 2));
      expect(await prevention.status(`ip:${IP}`)).toMatchObject({ strikes: 3 });
      const blocked = await send();
      expect(await blocked.json()).toMatchObject({
        type: "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        status: 429,
        detail: "Blocked after repeated violations of a limit. Try again later.",
      });
    }
  });

  it("blocks the IP address whatever the key is, and identity may be combined with key", async () => {
    const { statuses } = appWith({
      policy: "1/h",
      key: (request) => request.headers.get("x-user") ?? "",
      abuse: abuse({ penalty: { strikes: 2 } }),
    });
    expect(await statuses(3, "GET /", { "x-user": "a" })).toEqual([200, 429, 429]);
    expect(await statuses(1, "GET /", { "x-user": "b" })).toEqual([429]);
    expect(await statuses(1, "GET /", { "x-user": "b", "x-client": "203.0.113.8" })).toEqual([200]);
  });

  it("refunds the limit and not the strikes", async () => {
    const prevention = abuse({ penalty: { strikes: 2 } });
    const { statuses } = appWith({ policy: "1/h", refundIf: "succeeded", abuse: prevention });
    expect(await statuses(5)).toEqual(repeat(200, 5));
    await prevention.strike(`ip:${IP}`);
    expect(await statuses(5)).toEqual(repeat(200, 5));
    await prevention.strike(`ip:${IP}`);
    expect(await statuses(1)).toEqual([429]);
  });

  it("is released with the lease of a concurrency limit", async () => {
    const store = memoryStore();
    const prevention = abuse({ penalty: { strikes: 2 } });
    const limiter = createLimiter({ policy: concurrency(1), store });
    const { statuses } = appWith({ limiter, abuse: prevention });
    expect(await statuses(3)).toEqual(repeat(200, 3));
    await prevention.block(`ip:${IP}`, "1m");
    expect(await statuses(1)).toEqual([429]);
  });

  it("does not block requests without an IP address together", async () => {
    const { send } = appWith({
      policy: "1/h",
      identity: { unidentified: "share" },
      abuse: abuse({ penalty: { strikes: 1 } }),
    });
    expect((await send()).status).toBe(200);
    expect(await (await send()).json()).toMatchObject({ title: "Quota Exceeded" });
    expect(await (await send()).json()).toMatchObject({ title: "Quota Exceeded" });
  });

  it("can't be charged with a limiter of another library, or with too many policies", () => {
    const foreign = { consume: () => ({ allowed: true }) } as never;
    const prevention = () => abuse({ penalty: {}, store: memoryStore() });
    expect(() => appWith({ limiter: foreign, abuse: prevention() })).toThrow(
      /can't be charged together with a penalty/,
    );
    const policies = Array.from({ length: 16 }, (_, i) => `${i + 1}/m` as const);
    expect(() => appWith({ policies, abuse: prevention() })).toThrow(/at most 16 policies, penalties included/);
  });
});

describe("keys and costs beside a penalty", () => {
  it.each<[string, object]>([
    ["a negative cost", { cost: () => -5 }],
    ["a fraction", { cost: () => 0.5 }],
    ["no number", { cost: () => Number.NaN }],
    ["an empty key", { key: () => "" }],
  ])("are refused as without one: %s", async (_, wrong) => {
    const onError = vi.fn(() => "deny" as const);
    const { statuses } = appWith({ policy: "5/h", ...wrong, onError, abuse: abuse({ penalty: {} }) });
    expect(await statuses(2)).toEqual([503, 503]);
    expect(onError).toHaveBeenCalledTimes(2);
  });
});

describe("lists with a limiter of another library", () => {
  it("need nothing of the limiter", async () => {
    const limiter = { consume: () => ({ allowed: true, limit: 1, remaining: 1, policy: "x" }) } as never;
    const prevention = abuse({ deny: [(request: Request) => request.headers.has("x-bad")] });
    const { statuses } = appWith({ limiter, abuse: prevention });
    expect(await statuses(1, "GET /", { "x-bad": "1" })).toEqual([403]);
    expect(await statuses(2)).toEqual([200, 200]);
  });
});

describe("a middleware in shadow mode", () => {
  it("blocks nobody for others: denials and traps are no strikes", async () => {
    const prevention = abuse({ penalty: { strikes: 2 }, traps: ["/.env"] });
    const shadow = appWith({ policy: "1/h", mode: "shadow", abuse: prevention });
    const enforcing = appWith({ policy: "100/h", abuse: prevention });
    expect(await shadow.statuses(10)).toEqual(repeat(200, 10));
    expect(await shadow.statuses(1, "GET /.env")).toEqual([200]);
    expect(await enforcing.statuses(1)).toEqual([200]);
    expect(await prevention.status(`ip:${IP}`)).toBeUndefined();
  });
});

describe("clients that share an address", () => {
  const strict = (per: string) => abuse({ penalty: { strikes: 1, per } });

  it("are not blocked together, by their address or network", async () => {
    for (const per of ["ip", "network", "client"]) {
      const { send } = appWith({ policy: "1/h", identity: { unidentified: "share" }, abuse: strict(per) });
      await send();
      await send();
      expect(await (await send()).json(), per).toMatchObject({ title: "Quota Exceeded" });
    }
  });

  it("are not blocked together behind a proxy that identity does not name", async () => {
    const handler = rateLimit({ policy: "100/h", onEvent: () => {}, abuse: abuse({ traps: ["/.env"] }) })(
      (_request: Request, _info: object) => new Response("ok"),
    );
    const send = async (path: string, client: string): Promise<number> => {
      const request = new Request(`http://localhost${path}`, { headers: { "x-forwarded-for": client } });
      return (await handler(request, { remoteAddr: { hostname: "10.0.0.1" } })).status;
    };
    expect([await send("/.env", "198.51.100.9"), await send("/", "203.0.113.7")]).toEqual([404, 200]);
  });

  describe("behind a proxy that identity may not know", () => {
    /** Sends requests from a private address, with a header that anyone can write. */
    function forwarded(options: FetchRateLimitOptions) {
      const handler = rateLimit({ onEvent: () => {}, ...options })(
        (_request: Request, _info: object) => new Response(),
      );
      return async (count: number, path = "/", peer = "10.0.0.1"): Promise<number[]> => {
        const seen: number[] = [];
        for (let i = 0; i < count; i++) {
          const headers = { "x-forwarded-for": "198.51.100.9" };
          const info = { remoteAddr: { hostname: peer } };
          seen.push((await handler(new Request(`http://localhost${path}`, { headers }), info)).status);
        }
        return seen;
      };
    }

    it.each(["10.0.0.1", "127.0.0.1", "169.254.0.1", "100.64.0.1", "::1"])(
      "are denied by lists at %s",
      async (peer) => {
        const send = forwarded({ policy: "100/h", abuse: abuse({ deny: [ipList([peer])] }) });
        expect(await send(3, "/", peer)).toEqual(repeat(403, 3));
      },
    );

    it("are not exempted by an allow list, which may name the proxy", async () => {
      const send = forwarded({ policy: "1/h", abuse: abuse({ allow: [ipList(["10.0.0.0/8"])] }) });
      expect(await send(3)).toEqual([200, 429, 429]);
    });

    it.each([
      ["a policy", () => ({ policy: "1/h" }) as const],
      ["rules", () => ({ rules: rulesWith({ limits: { ip: "1/h" }, penalty: true }), facts: { account: () => "a" } })],
    ])("stay blocked with %s, and get no new strikes", async (_, options) => {
      const prevention = abuse({ penalty: { strikes: 2 } });
      const send = forwarded({ ...options(), abuse: prevention } as FetchRateLimitOptions);
      expect(await send(9)).toEqual([200, ...repeat(429, 8)]);
      expect(await prevention.status("ip:10.0.0.1")).toBeUndefined();
      await prevention.block("ip:10.0.0.2", "1m");
      expect(await send(2, "/", "10.0.0.2")).toEqual([429, 429]);
    });

    it("are what identity says, if it is written out", async () => {
      const prevention = abuse({ penalty: { strikes: 2 }, traps: ["/.env"] });
      const send = forwarded({ policy: "100/h", identity: "peer", abuse: prevention });
      expect([...(await send(1, "/.env")), ...(await send(1))]).toEqual([404, 429]);
      const strict = forwarded({ policy: "1/h", identity: "peer", abuse: prevention });
      await strict(3, "/", "10.0.0.3");
      expect(await prevention.status("ip:10.0.0.3")).toMatchObject({ strikes: 2 });
    });
  });

  it("do not include a user whose name looks like an address", async () => {
    const prevention = abuse({ penalty: { per: "user", strikes: 1 } });
    const user = (request: Request) => request.headers.get("x-user") ?? undefined;
    const rules = rulesWith({ penalty: true });
    const { statuses } = appWith({ rules, facts: { user, account: () => undefined }, abuse: prevention });
    const headers = { "x-user": "ip:unidentified" };
    expect(await statuses(5, "GET /", headers)).toEqual([200, 200, 200, 429, 429]);
    expect(await prevention.status("user:ip:unidentified")).toMatchObject({ strikes: 1 });
  });
});

describe("overrides of rules", () => {
  it("that are unlimited are no way around a block", async () => {
    const prevention = abuse({ penalty: {} });
    const overrides = { [`ip:${IP}`]: { "fallback.ip": "unlimited" } };
    const data = { rules: [], fallback: { limits: { ip: "1/h" }, penalty: false }, overrides };
    const { statuses } = appWith({ rules: loadRules(data, { facts: [] }), abuse: prevention });
    expect(await statuses(3)).toEqual(repeat(200, 3));
    await prevention.block(`ip:${IP}`, "1m");
    expect(await statuses(1)).toEqual([429]);
  });
});

describe("a rule in shadow mode", () => {
  it("denies blocked keys only, and reports no numbers of the penalty", async () => {
    const prevention = abuse({ penalty: {} });
    const decisions: unknown[] = [];
    const { send, statuses } = appWith({
      rules: rulesWith({ mode: "shadow", penalty: false }),
      abuse: prevention,
      onDecision: ({ mode, decision }) => decisions.push([mode, decision.policy, decision.allowed]),
    });
    const response = await send();
    expect([response.status, response.headers.get("ratelimit")]).toEqual([200, null]);
    expect(decisions).toEqual([["shadow", "all.ip", true]]);
    await prevention.block(`ip:${IP}`, "1m");
    expect(await statuses(1)).toEqual([429]);
    expect(decisions.at(-1)).toEqual([undefined, "penalty.ip", false]);
  });
});

describe("traps", () => {
  const trapped = (options: AbuseOptions<readonly [Request]> = {}) => {
    const prevention = abuse({ traps: ["/wp-login.php", "/.env", "/.git/*"], ...options });
    return { prevention, ...appWith({ policy: "100/h", abuse: prevention }) };
  };

  it("respond with an ordinary 404 and block the IP address everywhere at once", async () => {
    const { send, statuses, handled, prevention } = trapped();
    const response = await send("GET /.env");
    expect([response.status, await response.text(), response.headers.get("ratelimit")]).toEqual([
      404,
      "Not Found\n",
      null,
    ]);
    expect(handled()).toBe(0);
    expect(await prevention.status(`ip:${IP}`)).toMatchObject({ strikes: 10 });
    expect(await statuses(1)).toEqual([429]);
    expect(await statuses(1, "GET /", { "x-client": "203.0.113.8" })).toEqual([200]);
  });

  it.each([
    "/.env",
    "/.ENV",
    "/.env?x=1",
    "//.env",
    "/.env/",
    "/%2eenv",
    "/.git",
    "/.git/config",
    "/.git/a/b",
    "/WP-login.php",
  ])("match %s", async (path) => {
    expect(await trapped().statuses(1, `GET ${path}`)).toEqual([404]);
  });

  it.each(["/", "/env", "/.env.example", "/.gitignore", "/api/.env", "/docs?file=/.env", "/wp-login.php5"])(
    "do not match %s",
    async (path) => {
      expect(await trapped().statuses(1, `GET ${path}`)).toEqual([200]);
    },
  );

  it.each<[string, Record<string, string>]>([
    ["another site", { "sec-fetch-site": "cross-site" }],
    ["a subdomain", { "sec-fetch-site": "same-site" }],
    ["a page of another site in an old browser", { referer: "https://evil.example/page", host: "localhost" }],
    ["a script of another site", { origin: "https://evil.example", host: "localhost" }],
    ["a sandboxed page", { origin: "null", host: "localhost" }],
    ["a prefetch", { "sec-purpose": "prefetch;prerender" }],
    ["a speculation rule of another site", { "sec-purpose": "prefetch", "sec-fetch-site": "none" }],
    ["a page of the site, which may have content of users", { "sec-fetch-site": "same-origin" }],
    ["a page of the site in an old browser", { referer: "http://localhost/page", host: "localhost" }],
  ])("block nobody who is sent there by %s", async (_, headers) => {
    const { statuses } = trapped();
    expect(await statuses(1, "GET /.env", headers)).toEqual([404]);
    expect(await statuses(1)).toEqual([200]);
  });

  it("block a request of the address bar, which looks like that of a scanner", async () => {
    const { statuses } = trapped();
    expect(await statuses(1, "GET /.env", { "sec-fetch-site": "none" })).toEqual([404]);
    expect(await statuses(1)).toEqual([429]);
  });

  it("block no verified user", async () => {
    const prevention = abuse({ traps: ["/.env"] });
    const user = (request: Request) => request.headers.get("x-user") ?? undefined;
    const { statuses } = appWith({
      rules: rulesWith({}),
      facts: { user, account: () => undefined },
      abuse: prevention,
    });
    expect(await statuses(1, "GET /.env", { "x-user": "42" })).toEqual([404]);
    expect(await statuses(1)).toEqual([200]);
    expect(await statuses(1, "GET /.env")).toEqual([404]);
    expect(await statuses(1)).toEqual([429]);
  });

  it("do not make denials strikes", async () => {
    const prevention = abuse({ traps: ["/.env"] });
    const { statuses } = appWith({ policy: "1/h", abuse: prevention });
    await statuses(30);
    expect(await prevention.status(`ip:${IP}`)).toBeUndefined();
  });

  it("use the penalty per IP address", async () => {
    const { statuses, prevention } = trapped({ penalty: { strikes: 2, block: "5m" } });
    await statuses(1, "GET /.env");
    expect(await prevention.status(`ip:${IP}`)).toEqual({ retryAfterMs: expect.any(Number), strikes: 2 });
    expect((await prevention.status(`ip:${IP}`))?.retryAfterMs).toBeGreaterThan(299_000);
  });
});

describe("the tarpit", () => {
  it("delays responses to blocked keys, and answers at once above its maximum", async () => {
    const prevention = abuse({ penalty: {}, tarpit: { delay: "2s", max: 2 } });
    const { send, statuses } = appWith({ policy: "1/h", abuse: prevention });
    expect(await statuses(2)).toEqual([200, 429]);
    await prevention.block(`ip:${IP}`, "1h");
    vi.useFakeTimers();
    const done: number[] = [];
    const sent = [0, 1, 2].map(async (i) => {
      const { status } = await send();
      done.push(i);
      return status;
    });
    await vi.advanceTimersByTimeAsync(1999);
    expect(done).toEqual([2]);
    await vi.advanceTimersByTimeAsync(1);
    expect(await Promise.all(sent)).toEqual(repeat(429, 3));
    expect(done).toEqual([2, 0, 1]);
  });
});

describe("signals", () => {
  const botRules = () =>
    loadRules(
      {
        rules: [
          { name: "scrapers", match: "/*", when: { bot: "likely" }, limits: { ip: "1/h" } },
          { name: "german", match: "/*", when: { country: "DE" }, limits: { ip: "2/h" } },
          { name: "all", match: "/*", limits: { ip: "100/h" } },
        ],
        fallback: { limits: { ip: "100/h" } },
      },
      { facts: ["country"] },
    );

  it("are facts for rules, and the first that knows something is used", async () => {
    const calls: string[] = [];
    const prevention = abuse({
      signals: [
        () => {
          calls.push("first");
          return undefined;
        },
        async (request: Request) => {
          calls.push("second");
          return request.headers.has("x-bot") ? { bot: "likely" } : undefined;
        },
        () => ({ bot: "unlikely", facts: { country: "DE" } }),
      ],
    });
    const { statuses } = appWith({ rules: botRules(), abuse: prevention });
    expect(await statuses(2, "GET /", { "x-bot": "1" })).toEqual([200, 429]);
    expect(calls).toEqual(["first", "second", "first", "second"]);
    expect(await statuses(3)).toEqual([200, 200, 429]);
  });

  it("never deny: one that fails is reported, and the next is used", async () => {
    const onError = vi.fn();
    const prevention = abuse({
      signals: [
        () => Promise.reject(new Error("vendor down")),
        () => {
          throw new Error("broken");
        },
        (() => ({ bot: "maybe" })) as never,
        (() => ({ facts: { country: 7 } })) as never,
        () => ({ bot: "likely" }),
      ],
    });
    const { statuses } = appWith({ rules: botRules(), abuse: prevention, onError });
    expect(await statuses(2)).toEqual([200, 429]);
    const messages = onError.mock.calls.map(([error]) => (error as Error).message);
    expect(messages.slice(0, 2)).toEqual(["vendor down", "broken"]);
    expect(messages[2]).toContain('bot is "verified", "likely", "unlikely" or undefined');
  });

  it("identify nobody, and are called only if a rule needs their fact", async () => {
    const signal = vi.fn(() => ({ facts: { user: "admin", country: "DE" } }));
    const rules = loadRules(
      {
        rules: [{ name: "all", match: "/all", limits: { client: "2/h" } }],
        fallback: { limits: { user: "1/h", ip: "2/h" } },
      },
      { facts: [] },
    );
    const { send, statuses } = appWith({ rules, abuse: abuse({ signals: [signal] }) });
    expect(await statuses(2, "GET /all")).toEqual([200, 200]);
    expect((await send("GET /other")).headers.get("ratelimit-policy")).toBe('"fallback.ip";q=2;w=3600');
    expect(signal).not.toHaveBeenCalled();
  });

  it("are not needed if the application has a function for the fact", async () => {
    const facts = { bot: () => "likely", country: () => undefined };
    const { statuses } = appWith({ rules: botRules(), facts });
    expect(await statuses(2)).toEqual([200, 429]);
    expect(() => appWith({ rules: botRules(), facts: { country: () => "DE" } })).toThrow(
      /facts\.bot: missing a function, or abuse\(\{ signals \}\); rule "scrapers" depends on it/,
    );
  });
});

describe("blocks by hand", () => {
  it("need a penalty, a store and a key of its kind", async () => {
    await expect(abuse({ deny: [() => false] }).block("ip:1.2.3.4", "1m")).rejects.toThrow(/block\(\) needs a penalty/);
    await expect(abuse({ penalty: {} }).block("ip:1.2.3.4", "1m")).rejects.toThrow(/block\(\) has no store yet/);
    const prevention = abuse({ penalty: {}, store: memoryStore() });
    await expect(prevention.block("user:42", "1m")).rejects.toThrow(
      /no penalty for such keys: the key must be like "ip:/,
    );
    await expect(prevention.block("ip:nonsense", "1m")).rejects.toThrow(/one IP address after "ip:"/);
    await expect(prevention.block("ip:10.0.0.0/8", "1m")).rejects.toThrow(/for ranges, use deny/);
    await expect(prevention.block("ip:1.2.3.4", "1week" as never)).rejects.toThrow(/duration must be/);
    await expect(prevention.strike("ip:1.2.3.4", 0)).rejects.toThrow(/count must be a whole number >= 1/);
    await expect(prevention.status("")).rejects.toThrow(SluiceError);
    expect(await prevention.status("ip:1.2.3.4")).toBeUndefined();
  });

  it("accept every spelling of an address", async () => {
    const prevention = abuse({ penalty: {}, store: memoryStore() });
    await prevention.block("ip:2001:DB8:0:0:1::7", "1m");
    for (const key of ["ip:2001:db8::1", "ip:2001:db8::/56"])
      expect(await prevention.status(key), key).toMatchObject({ strikes: 0 });
    expect(await prevention.status("ip:2001:db8::/64")).toBeUndefined();
    await prevention.block("ip:::ffff:203.0.113.9", "1m");
    expect(await prevention.unblock("ip:203.0.113.9")).toBe(true);
  });

  it("are written as requests write them: networks, and joined keys with a sign that separates their parts", async () => {
    const prevention = abuse({ penalty: [{ per: "network" }, { per: "ip+account" }], store: memoryStore() });
    await prevention.block("net:198.51.100.9", "1m");
    expect(await prevention.status("net:198.51.100.0/24")).toMatchObject({ strikes: 0 });
    await prevention.block("ip:203.0.113.7+account:ada+news@example.com", "1m");
    expect(await prevention.status("ip:203.0.113.7+account:ada%2Bnews@example.com")).toMatchObject({ strikes: 0 });
    await expect(prevention.block("ip:203.0.113.7+account:100%", "1m")).rejects.toThrow(/"%" is written as "%25"/);
    await expect(prevention.block("net:198.51.100.0/16", "1m")).rejects.toThrow(/its \/24 or \/48 after "net:"/);
  });

  it("choose the penalty by the kind of the key", async () => {
    const penalty = [{ per: "user" }, { per: "ip+account" }];
    const prevention = abuse({ penalty, store: memoryStore() });
    await prevention.block("user:42", "1m");
    await prevention.block("ip:203.0.113.7+account:ada", "2m");
    expect(await prevention.status("user:42")).toMatchObject({ strikes: 0 });
    expect(await prevention.status("ip:203.0.113.7+account:ada")).toMatchObject({ strikes: 0 });
    await expect(prevention.block("ip:203.0.113.7", "1m")).rejects.toThrow(
      /"user:\.\.\.".*or the key must be like "ip/,
    );
  });
});

describe("the store", () => {
  it("is that of the rules or limits, so that a request is one call", async () => {
    const clock = fakeClock();
    const store = memoryStore({ clock });
    const apply = vi.spyOn(store, "applySync");
    const { statuses } = appWith({
      rules: rulesWith({ penalty: true }, { store }),
      abuse: abuse({ penalty: {} }),
      facts: { account: () => undefined },
    });
    await statuses(1);
    expect(apply.mock.calls.map(([group]) => group.map(({ policy, mode }) => `${policy.name} ${mode}`))).toEqual([
      ["all.ip take", "penalty.ip penalty"],
    ]);
  });

  it("may be another one", async () => {
    const store = memoryStore();
    const prevention = abuse({ penalty: { strikes: 2 }, store });
    const { statuses } = appWith({
      rules: rulesWith({ penalty: true }),
      abuse: prevention,
      facts: { account: () => undefined },
    });
    expect(await statuses(5)).toEqual([200, 200, 200, 429, 429]);
    expect(await prevention.status(`ip:${IP}`)).toMatchObject({ strikes: 2 });
    expect(store.size).toBe(1);
  });

  it("is one for all middleware in memory, so that a block applies to all of them", async () => {
    const prevention = abuse({ penalty: { strikes: 2 } });
    const [first, second] = [
      appWith({ policy: "1/h", abuse: prevention }),
      appWith({ policy: "1/h", abuse: prevention }),
    ];
    expect(await first.statuses(3)).toEqual([200, 429, 429]);
    expect(await second.statuses(1)).toEqual([429]);
    expect(await second.statuses(1, "GET /", { "x-client": "203.0.113.8" })).toEqual([200]);
  });

  it("does not end with the rules of another middleware", async () => {
    const prevention = abuse({ penalty: {} });
    const first = rulesWith({ penalty: true });
    appWith({ rules: first, abuse: prevention, facts: { account: () => undefined } });
    const { statuses } = appWith({ policy: "100/h", abuse: prevention });
    await first.dispose();
    expect(await statuses(1)).toEqual([200]);
  });

  it("must be given if limiters are chosen for each request, or are on two stores", () => {
    const limiter = (): RateLimiter => createLimiter({ policy: "1/h" });
    expect(() => appWith({ limiter, abuse: abuse({ penalty: {} }) })).toThrow(/has no store for its blocks/);
    expect(() => appWith({ limiter, abuse: abuse({ penalty: {}, store: memoryStore() }) })).not.toThrow();
    const remote = () => {
      const { applySync: _, ...store } = { ...memoryStore() };
      return { ...store, consistency: "exact", apply: async () => [] } as unknown as Store;
    };
    const shared = abuse({ penalty: {} });
    appWith({ limiter: createLimiter({ policy: "1/h", store: remote() }), abuse: shared });
    expect(() => appWith({ limiter: createLimiter({ policy: "1/h", store: remote() }), abuse: shared })).toThrow(
      /limits on two stores/,
    );
    const local = abuse({ penalty: {} });
    appWith({ policy: "1/h", abuse: local });
    expect(() => appWith({ limiter: createLimiter({ policy: "1/h", store: remote() }), abuse: local })).toThrow(
      /limits on two stores/,
    );
  });
});

describe("wrong options", () => {
  const rules = (rule: object) => ({ rules: rulesWith(rule), facts: { account: () => "ada" } });

  it.each<[string, () => unknown, RegExp]>([
    ["an unknown option", () => abuse({ penalties: {} } as never), /"penalties" is not an option of abuse/],
    ["text as a list", () => abuse({ deny: ["10.0.0.0/8"] as never }), /deny\[0\] must be a list made by ipList\(\)/],
    ["no list", () => abuse({ allow: "10.0.0.0/8" as never }), /allow must be a list of lists and functions/],
    ["a wrong signal", () => abuse({ signals: ["bot"] as never }), /signals must be a list of signals/],
    ["a wrong challenge", () => abuse({ challenge: {} as never }), /challenge must be a challenge made by challenge\(/],
    ["a wrong store", () => abuse({ store: {} as never }), /store must be a store/],
    [
      "a maximum below the block",
      () => abuse({ penalty: { block: "5m", maxBlock: "1m" } }),
      /penalty\.maxBlock must be at least penalty\.block \("5m"\), but received "1m"/,
    ],
    [
      "an account alone",
      () => abuse({ penalty: { per: "account" } }),
      /penalty\.per: "account" can be chosen by a stranger, who could lock out its owner; use "ip" or "ip\+account"/,
    ],
    ["everyone", () => abuse({ penalty: { per: "global" } }), /penalty\.per: "global" can't be blocked/],
    ["no identity", () => abuse({ penalty: { per: "" } }), /penalty\.per must be an identity/],
    ["no strikes", () => abuse({ penalty: { strikes: 0 } }), /penalty\.strikes must be a whole number >= 1/],
    [
      "no duration",
      () => abuse({ penalty: { block: "soon" as never } }),
      /penalty\.block must be a number of milliseconds/,
    ],
    [
      "one identity twice",
      () => abuse({ penalty: [{}, { per: "ip" }] }),
      /penalty\[1\]\.per must be an identity that no other penalty has/,
    ],
    ["three penalties", () => abuse({ penalty: [{}, { per: "user" }, { per: "apiKey" }] }), /at most 2 penalties/],
    [
      "no room for traps",
      () => abuse({ penalty: [{ per: "user" }, { per: "apiKey" }], traps: ["/.env"] }),
      /Traps need one per ip/,
    ],
    ["a trap for everyone", () => abuse({ traps: ["/*"] }), /traps\[0\] must be a path such as/],
    ["a trap that is no path", () => abuse({ traps: [".env"] }), /traps\[0\] must be a path such as/],
    ["no traps", () => abuse({ traps: [] }), /traps must be a list of 1 to 1000 paths/],
    [
      "a tarpit that nothing enters",
      () => abuse({ tarpit: { delay: "1s", max: 1 } }),
      /tarpit: delays responses to blocked keys; add penalty or traps/,
    ],
    [
      "a tarpit without a maximum",
      () => abuse({ penalty: {}, tarpit: { delay: "1s" } as never }),
      /tarpit\.max must be a whole number/,
    ],
    [
      "a long tarpit",
      () => abuse({ penalty: {}, tarpit: { delay: "5m", max: 1 } }),
      /tarpit\.delay must be at most 60000/,
    ],
    [
      "an object that is not made by abuse",
      () => appWith({ policy: "1/h", abuse: { penalty: {} } as never }),
      /abuse must be made by abuse\(\) of sluice\/abuse, but received an object/,
    ],
    [
      "signals without rules",
      () => appWith({ policy: "1/h", abuse: abuse({ signals: [() => undefined] }) }),
      /signals: needs rateLimit\(\{ rules \}\)/,
    ],
    [
      "facts without rules",
      () => appWith({ policy: "1/h", abuse: abuse({ penalty: { per: "ip+account" } }) }),
      /penalty\.per: needs rateLimit\(\{ rules \}\), because "ip\+account" contains a fact/,
    ],
    [
      "an identity that no request has",
      () => appWith({ policy: "1/h", abuse: abuse({ penalty: { per: "user" } }) }),
      /penalty\.per: "user" would block nobody, because no request has a user; set identity: \{ jwt \}/,
    ],
    [
      "a clearance to block",
      () => abuse({ penalty: { per: "ip+clearance" } }),
      /penalty\.per: "ip\+clearance" can't be blocked; use "ip"/,
    ],
    [
      "two penalties of one name on a store",
      () => {
        const store = memoryStore();
        for (const strikes of [1, 2]) appWith({ policy: "1/h", abuse: abuse({ penalty: { strikes }, store }) });
      },
      /Another abuse\(\) or a rule on this store has a policy named "penalty\.ip" with other numbers\..*set prefix/,
    ],
    [
      "a challenge that is missing",
      () => appWith({ ...rules({ action: "challenge" }), abuse: abuse({ penalty: {} }) }),
      /rules\[0\]\.action: "challenge" for "ip" needs abuse\(\{ challenge \}\)/,
    ],
    [
      "strikes that nothing counts",
      () => appWith({ ...rules({ penalty: true }), abuse: abuse({ traps: ["/.env"] }) }),
      /rules\[0\]\.penalty: needs abuse\(\{ penalty \}\)/,
    ],
    [
      "a penalty that nothing strikes",
      () => appWith({ ...rules({}), abuse: abuse({ penalty: { strikes: 2 } }) }),
      /abuse\(\{ penalty \}\) would never block a client, because no rule has penalty: true\. Set it in the rules/,
    ],
  ])("with %s say what to do", (_, create, message) => {
    expect(create).toThrow(SluiceError);
    expect(create).toThrow(message);
  });

  it("are no mistakes if traps or the application strike", () => {
    for (const options of [{ penalty: {}, traps: ["/.env"] }, { traps: ["/.env"] }]) {
      expect(() => appWith({ ...rules({}), abuse: abuse(options) })).not.toThrow();
    }
    expect(() => appWith({ ...rules({ penalty: false }), abuse: abuse({ penalty: {} }) })).not.toThrow();
  });

  it("are found when rules are replaced", async () => {
    const set = rulesWith({});
    appWith({ rules: set, facts: { account: () => "ada" }, abuse: abuse({ traps: ["/.env"] }) as Abuse });
    const next = { ...set.data, rules: [{ ...set.data.rules[0], penalty: true }] };
    await expect(set.replace(next)).rejects.toThrow(/needs abuse\(\{ penalty \}\)/);
  });

  it("say that consume and hold can't challenge or block", async () => {
    const { rules: set } = rules({ penalty: true });
    await expect(set.consume({ method: "GET", path: "/x", ip: IP })).rejects.toThrow(
      /consume\(\) can't challenge or block callers. Use rateLimit\(\{ rules, abuse \}\) for rule "all"/,
    );
  });
});
