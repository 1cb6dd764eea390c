import { inspect } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type SiteverifyServer, startSiteverify } from "../../../test/servers/siteverify.js";
import type { SluiceError } from "../../base/errors.ts";
import type { Decision, Denied } from "../../core/decision.ts";
import type { ResponseData } from "../../http/rejection.ts";
import { type ChallengeOptions, challenge } from "./challenge.ts";
import { CHALLENGE, type ChallengeRequest } from "./challenge-types.ts";
import { turnstile } from "./providers.ts";

const PROVIDER_SECRET = "0x4AAAAAAAsecret-of-provider";
const SECRET = "s".repeat(32);
const PATH = "/.sluice/clearance";

let server: SiteverifyServer;
beforeAll(async () => {
  server = await startSiteverify({ secret: PROVIDER_SECRET });
});
afterAll(() => server.close());
beforeEach(() => {
  server.requests.length = 0;
  server.behave("verify");
});

const provider = (options = {}) =>
  turnstile({ siteKey: "site-key", secret: PROVIDER_SECRET, url: server.url, ...options });
const handlerOf = (options: Partial<ChallengeOptions> = {}) =>
  challenge({ provider: provider(), secret: [SECRET], ...options })[CHALLENGE];

const NUMBERS = { policy: "v", limit: 20, remaining: 0, resetAfterMs: 1, nextAfterMs: 1 };
const ALLOWED: Decision = { ...NUMBERS, allowed: true };
const DENIED: Denied = { ...NUMBERS, allowed: false, retryAfterMs: 2500 };

interface RequestParts {
  method?: string;
  path?: string;
  ip?: string | undefined;
  headers?: Record<string, string>;
  body?: string | { parsed: unknown } | undefined;
  decision?: Decision;
}

function makeRequest(parts: RequestParts = {}) {
  const { method = "GET", path = "/", headers = {}, body, decision = ALLOWED } = parts;
  const down: [string, SluiceError][] = [];
  const all: Record<string, string> = { host: "localhost:3000", "user-agent": "Firefox", ...headers };
  const countVerification = vi.fn(() => decision);
  const request: ChallengeRequest = {
    method,
    path,
    ip: "ip" in parts ? parts.ip : "203.0.113.7",
    header: (name) => all[name],
    async body(maxBytes) {
      if (typeof body !== "string") return body;
      const bytes = new TextEncoder().encode(body);
      return bytes.length > maxBytes ? undefined : bytes;
    },
    countVerification,
    reports: {
      listRefreshed() {},
      listStale: () => expect.unreachable(),
      providerDown: (name, error) => void down.push([name, error]),
    },
  };
  return { ...request, down, countVerification };
}

const NAVIGATION = { "sec-fetch-mode": "navigate", accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const JSON_TYPE = { "content-type": "application/json" };
const solution = (parts: RequestParts = {}) =>
  makeRequest({
    method: "POST",
    path: PATH,
    headers: JSON_TYPE,
    body: JSON.stringify({ token: server.issue() }),
    ...parts,
  });
const problemOf = ({ body }: ResponseData) => JSON.parse(String(body));

describe("the response to a request over the limit", () => {
  it("is a problem for scripts", () => {
    const response = handlerOf().respond(makeRequest({ headers: { accept: "*/*" } }), "login");
    expect(response).toEqual({
      status: 403,
      headers: {
        "Sluice-Mitigated": "challenge",
        "Access-Control-Expose-Headers": "Sluice-Mitigated",
        "Cache-Control": "no-store",
        "Content-Type": "application/problem+json",
      },
      body: '{"type":"about:blank","title":"Forbidden","status":403,"code":"challenge-required","rule":"login","challenge":{"provider":"turnstile","siteKey":"site-key","action":"sluice","path":"/.sluice/clearance"}}',
    });
  });

  it("has the configured action and path", () => {
    const handler = handlerOf({ provider: provider({ action: "login" }), path: "/solve" });
    const { challenge } = problemOf(handler.respond(makeRequest(), "a"));
    expect(challenge).toMatchObject({ action: "login", path: "/solve" });
  });

  it.each<[string, Record<string, string>, boolean]>([
    ["a navigation", NAVIGATION, true],
    ["an old browser", { accept: "text/html" }, true],
    ["fetch", { "sec-fetch-mode": "cors", accept: "*/*" }, false],
    ["fetch of HTML", { "sec-fetch-mode": "same-origin", accept: "text/html" }, false],
    ["an image", { "sec-fetch-mode": "no-cors", accept: "image/avif,*/*" }, false],
    ["a navigation without text/html", { "sec-fetch-mode": "navigate", accept: "*/*" }, false],
    ["a script without Accept", {}, false],
  ])("to %s is a page: %s", (_title, headers, isPage) => {
    const response = handlerOf().respond(makeRequest({ headers }), "a");
    expect(response.status).toBe(403);
    expect(response.headers["Content-Type"]).toBe(isPage ? "text/html; charset=utf-8" : "application/problem+json");
  });

  it("is a page with the headers that protect it", () => {
    const response = handlerOf().respond(makeRequest({ headers: NAVIGATION }), "a");
    const [, nonce] = /'nonce-([0-9a-f]{32})'/.exec(String(response.headers["Content-Security-Policy"])) ?? [];
    expect(response.headers).toEqual({
      "Sluice-Mitigated": "challenge",
      "Access-Control-Expose-Headers": "Sluice-Mitigated",
      "Cache-Control": "no-store",
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": `default-src 'none'; script-src 'nonce-${nonce}' 'strict-dynamic' https://challenges.cloudflare.com; style-src 'nonce-${nonce}'; frame-src https://challenges.cloudflare.com; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
      "Referrer-Policy": "strict-origin-when-cross-origin",
      "X-Content-Type-Options": "nosniff",
      "X-Robots-Tag": "noindex",
    });
    const again = handlerOf().respond(makeRequest({ headers: NAVIGATION }), "a");
    expect(again.headers["Content-Security-Policy"]).not.toContain(nonce);
  });

  it("has no body if the method is HEAD", () => {
    const { body } = handlerOf().respond(makeRequest({ method: "HEAD", headers: NAVIGATION }), "a");
    expect(body).toBeNull();
  });

  it("asks to submit a form again", () => {
    const { body } = handlerOf().respond(makeRequest({ method: "POST", headers: NAVIGATION }), "a");
    expect(body).toContain("your form was not submitted");
  });

  it("is the page of renderPage, with the same headers", () => {
    const renderPage = vi.fn(() => "<h1>Mine</h1>");
    const response = handlerOf({ renderPage }).respond(makeRequest({ headers: NAVIGATION }), "login");
    expect(response.body).toBe("<h1>Mine</h1>");
    const [[context]] = renderPage.mock.calls as unknown as [[Record<string, unknown>]];
    expect(response.headers["Content-Security-Policy"]).toContain(`'nonce-${context.nonce}'`);
    expect(context).toEqual({
      nonce: expect.stringMatching(/^[0-9a-f]{32}$/),
      provider: "turnstile",
      siteKey: "site-key",
      scriptUrl: "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit",
      widget: { object: "turnstile" },
      action: "sluice",
      path: PATH,
      tokenField: "cf-turnstile-response",
      rule: "login",
      isForm: false,
      messages: expect.objectContaining({ retry: "Try again" }),
      lang: "en",
    });
  });

  it("is in the language of the request", () => {
    const messages = (accept: string | undefined) => (accept?.startsWith("de") ? { lang: "de", title: "Prüfung" } : {});
    const textFor = (language: Record<string, string>) =>
      handlerOf({ messages }).respond(makeRequest({ headers: { ...NAVIGATION, ...language } }), "a").body;
    const german = textFor({ "accept-language": "de-CH,de;q=0.9" });
    expect(german).toContain('<html lang="de">');
    expect(german).toContain("<h1>Prüfung</h1>");
    const english = textFor({});
    expect(english).toContain('<html lang="en">');
    expect(english).toContain("<h1>Confirm that you are human</h1>");
  });
});

describe("a solution", () => {
  const bodies: [string, () => RequestParts][] = [
    ["JSON", () => ({})],
    ["a form", () => ({ headers: {}, body: String(new URLSearchParams({ "cf-turnstile-response": server.issue() })) })],
    ["parsed JSON", () => ({ body: { parsed: { token: server.issue() } } })],
    ["a parsed form", () => ({ body: { parsed: { "cf-turnstile-response": server.issue() } } })],
  ];

  it.each(bodies)("as %s gets 204 and a clearance", async (_title, parts) => {
    const handler = handlerOf();
    const request = solution(parts());
    expect(handler.isSolution(request)).toBe(true);
    const { status, headers, body } = await handler.solve(request);
    expect([status, body, request.countVerification.mock.calls.length]).toEqual([204, null, 1]);
    expect(Object.keys(headers).sort()).toEqual([
      "Access-Control-Expose-Headers",
      "Cache-Control",
      "Set-Cookie",
      "Sluice-Clearance",
    ]);
    const cookie = String(headers["Set-Cookie"]).split(";", 1)[0] as string;
    const text = String(headers["Sluice-Clearance"]);
    const id = handler.clearanceOf(makeRequest({ headers: { cookie } }));
    expect(id).toBe(text.split(".")[3]);
    expect(handler.clearanceOf(makeRequest({ headers: { "sluice-clearance": text } }))).toBe(id);
    expect(handler.clearanceOf(makeRequest({ headers: { cookie }, ip: "198.51.100.1" }))).toBeUndefined();
    expect(handler.clearanceOf(makeRequest({ headers: { cookie, "user-agent": "curl" } }))).toBeUndefined();
    expect(handler.clearanceOf(makeRequest())).toBeUndefined();
  });

  it.each<[string, RequestParts]>([
    ["nothing", { body: undefined }],
    ["an empty body", { body: "" }],
    ["invalid JSON", { body: "{" }],
    ["null", { body: "null" }],
    ["a number", { body: '{"token":7}' }],
    ["two tokens", { body: { parsed: { token: ["a", "b"] } } }],
    ["text", { body: { parsed: "token" } }],
    ["an inherited member", { body: { parsed: Object.create({ token: "a" }) } }],
    ["more than 8 kB", { body: JSON.stringify({ token: "x".repeat(8192) }) }],
    ["a token of 8001 characters", { body: JSON.stringify({ token: "x".repeat(8001) }) }],
    ["spaces", { body: '{"token":"a b"}' }],
    ["other characters", { body: '{"token":"é"}' }],
  ])("with %s gets 403, and is counted and not verified", async (_title, parts) => {
    const request = solution(parts);
    const response = await handlerOf().solve(request);
    expect(response).toEqual({
      status: 403,
      headers: { "Cache-Control": "no-store", "Content-Type": "application/problem+json" },
      body: '{"type":"about:blank","title":"Forbidden","status":403,"code":"challenge-failed","codes":["invalid-input-response"]}',
    });
    expect(request.countVerification).toHaveBeenCalledOnce();
    expect(server.requests).toEqual([]);
  });

  it("that is used twice gets 403", async () => {
    const body = JSON.stringify({ token: server.issue() });
    expect((await handlerOf().solve(solution({ body }))).status).toBe(204);
    const again = await handlerOf().solve(solution({ body }));
    expect(again.status).toBe(403);
    expect(problemOf(again)).toMatchObject({ code: "challenge-failed", codes: ["timeout-or-duplicate"] });
  });

  it.each([
    [{ hostname: "evil.example" }, "hostname-mismatch"],
    [{ action: "login" }, "action-mismatch"],
    [{ ageMs: 360_000, isLenient: true }, "token-too-old"],
  ])("of a token with %j gets 403", async (token, code) => {
    const response = await handlerOf().solve(solution({ body: JSON.stringify({ token: server.issue(token) }) }));
    expect(problemOf(response)).toMatchObject({ status: 403, code: "challenge-failed", codes: [code] });
    expect(response.headers).not.toHaveProperty("Set-Cookie");
  });

  it.each(["GET", "PUT", "DELETE", "HEAD"])("with the method %s gets 405", async (method) => {
    const response = await handlerOf().solve(solution({ method }));
    expect([response.status, response.headers.Allow]).toEqual([405, "POST"]);
    expect(server.requests).toEqual([]);
  });

  it("over the limit of verifications gets 429 and is not verified", async () => {
    const response = await handlerOf().solve(solution({ decision: DENIED }));
    expect([response.status, response.headers["Retry-After"]]).toEqual([429, "3"]);
    expect(server.requests).toEqual([]);
  });

  it("gets 503 if the limit of verifications can't be checked", async () => {
    const decision: Denied = { ...DENIED, unavailable: true };
    const response = await handlerOf().solve(solution({ decision }));
    expect(response.status).toBe(503);
  });

  it.each(["fail", "redirect", "garbage", "internal-error"] as const)(
    "gets 429 if the provider is down: %s",
    async (behaviour) => {
      server.behave(behaviour);
      const request = solution();
      const response = await handlerOf().solve(request);
      expect([response.status, response.headers["Retry-After"]]).toEqual([429, "30"]);
      expect(request.down).toEqual([["turnstile", expect.objectContaining({ code: "provider-unavailable" })]]);
      const seen = inspect([response, request.down], { depth: 9, showHidden: true });
      expect(seen).not.toContain(PROVIDER_SECRET);
      expect(server.requests).toHaveLength(1);
    },
  );

  it("gets 429 if a provider of the application throws", async () => {
    const own = { ...provider(), verify: () => Promise.reject(new Error("mine")) };
    const request = solution();
    expect((await handlerOf({ provider: own }).solve(request)).status).toBe(429);
    expect(request.down[0]?.[1]).toMatchObject({ code: "provider-unavailable", cause: new Error("mine") });
  });

  it("gets 403 without an address, unless only the User-Agent is bound", async () => {
    const response = await handlerOf().solve(solution({ ip: undefined }));
    expect(problemOf(response)).toMatchObject({ code: "challenge-failed", codes: ["unknown-ip-address"] });
    expect(server.requests).toEqual([]);
    expect((await handlerOf({ bindTo: "user-agent" }).solve(solution({ ip: undefined }))).status).toBe(204);
  });

  it.each([
    ["/.sluice/clearance", true],
    ["/.sluice/clearance?a=1", true],
    ["/.sluice/clearance/", false],
    ["/.sluice/Clearance", false],
    ["/.sluice/clearances", false],
    ["/x/.sluice/clearance", false],
  ])("is a request to its path: %s %s", (path, isSolution) => {
    expect(handlerOf().isSolution(makeRequest({ path }))).toBe(isSolution);
  });
});

describe("a request with a token", () => {
  it("gets a clearance with its response", async () => {
    const handler = handlerOf();
    const request = makeRequest({ headers: { "sluice-challenge-token": server.issue() } });
    const token = handler.tokenOf(request) as string;
    const clearance = await handler.verify(token, request);
    if ("status" in clearance) return expect.unreachable();
    expect(clearance.id).toMatch(/^[0-9a-f]{32}$/);
    expect(Object.keys(clearance.set)).toEqual(["Set-Cookie", "Sluice-Clearance", "Cache-Control"]);
    expect(server.requests[0]?.fields.get("remoteip")).toBe("203.0.113.7");
  });

  it("gets a response if the token is refused", async () => {
    expect(await handlerOf().verify("unknown", makeRequest())).toMatchObject({ status: 403 });
  });

  it.each([{}, { "sluice-challenge-token": "" }])("has none: %j", (headers) => {
    expect(handlerOf().tokenOf(makeRequest({ headers }))).toBeUndefined();
  });
});
