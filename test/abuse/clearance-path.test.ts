/** Requests to the path of solutions are counted, and a clearance is valid on one site only (issue 30). */
import { abuse, type ChallengeProvider, challenge } from "sluice/abuse";
import { rateLimit } from "sluice/fetch";
import { loadRules } from "sluice/rules";
import { describe, expect, it } from "vitest";

const PATH = "/.sluice/clearance";
const verified: string[] = [];
const provider: ChallengeProvider = {
  name: "stand-in",
  siteKey: "site",
  scriptUrl: "https://captcha.example/api.js",
  frameOrigin: "https://captcha.example",
  tokenField: "token",
  async verify(token) {
    verified.push(token);
    return { ok: token === "solved", codes: [] };
  },
};

/** One site. All sites have the same secret. */
function site(host: string) {
  const rules = loadRules(
    {
      rules: [{ name: "all", match: "/*", limits: { ip: "1/d" }, action: "challenge" }],
      fallback: { limits: { ip: "1/d" } },
    },
    { facts: [] },
  );
  const prevention = abuse({ challenge: challenge({ provider, secret: ["0123456789abcdef0123456789abcdef"] }) });
  const handler = rateLimit({ rules, abuse: prevention })((_request: Request, _info: object) => new Response("ok"));
  return (path: string, init: RequestInit = {}, ip = "203.0.113.7") =>
    handler(new Request(`https://${host}${path}`, init), { remoteAddr: { hostname: ip } });
}

describe("requests to the path of solutions", () => {
  it.each<[string, RequestInit]>([
    ["without a body", { method: "POST" }],
    ["without a token", { method: "POST", body: "{}", headers: { "content-type": "application/json" } }],
    ["with an unusable token", { method: "POST", body: new URLSearchParams({ token: "a b" }) }],
    ["with another method", { method: "GET" }],
  ])("are counted %s: 20 of 1000 get an answer, then 429", async (_, init) => {
    const send = site("a.example");
    const statuses: number[] = [];
    for (let i = 0; i < 1000; i++) statuses.push((await send(PATH, init)).status);
    const denied = statuses.filter((status) => status === 429).length;
    // 20 a minute: another one may have been refilled meanwhile.
    expect(denied).toBeGreaterThanOrEqual(975);
    expect(statuses.slice(0, 20)).not.toContain(429);
    expect((await send(PATH, init, "203.0.113.8")).status).not.toBe(429);
  });

  it("are counted with an unusable token in a header, on every path", async () => {
    const send = site("a.example");
    verified.length = 0;
    const statuses: number[] = [];
    for (let i = 0; i < 100; i++) {
      statuses.push((await send("/", { headers: { "sluice-challenge-token": "a b" } })).status);
    }
    expect([statuses[0], statuses[99], verified]).toEqual([403, 429, []]);
  });
});

describe("a clearance", () => {
  it("is valid on the site that issued it, and on no other with the same secret", async () => {
    const [a, b] = [site("a.example"), site("b.example")];
    const solved = await a(PATH, { method: "POST", body: new URLSearchParams({ token: "solved" }) });
    const clearance = solved.headers.get("sluice-clearance") ?? "";
    expect([solved.status, clearance.slice(0, 3)]).toEqual([204, "v2."]);
    const statuses = async (send: typeof a) => {
      const first = await send("/");
      const second = await send("/", { headers: { "sluice-clearance": clearance } });
      return [first.status, second.status];
    };
    expect(await statuses(a)).toEqual([200, 200]);
    expect(await statuses(b)).toEqual([200, 403]);
    const sameWithPort = site("a.example:8443");
    expect(await statuses(sameWithPort)).toEqual([200, 200]);
  });
});
