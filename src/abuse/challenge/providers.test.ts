import { inspect } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type Behaviour, type SiteverifyServer, startSiteverify } from "../../../test/servers/siteverify.js";
import { SluiceError } from "../../base/errors.ts";
import type { ChallengeProvider } from "./provider.ts";
import { hcaptcha, type ProviderOptions, recaptcha, turnstile } from "./providers.ts";

const SECRET = "0x4AAAAAAAsecret+/=&value";
const expected = { ip: "203.0.113.7", hostname: "example.com", action: "sluice" };
const makers = { turnstile, hcaptcha, recaptcha };
type Name = keyof typeof makers;
const NAMES = Object.keys(makers) as Name[];

const servers = {} as Record<Name, SiteverifyServer>;
beforeAll(async () => {
  for (const provider of NAMES) servers[provider] = await startSiteverify({ provider, secret: SECRET });
});
afterAll(() => Promise.all(Object.values(servers).map((server) => server.close())));
beforeEach(() => {
  for (const server of Object.values(servers)) {
    server.requests.length = 0;
    server.behave("verify");
  }
});

function make(name: Name, options: Partial<ProviderOptions> & { keyType?: "score"; minScore?: number } = {}) {
  return makers[name]({ siteKey: "site-key", secret: SECRET, url: servers[name].url, ...options });
}

const issue = (name: Name, options = {}) => servers[name].issue({ hostname: "example.com", ...options });

/** The error that a verification rejects with. */
const errorOf = (provider: ChallengeProvider, token = "token") =>
  provider.verify(token, expected).then(
    () => expect.unreachable(),
    (error: SluiceError) => error,
  );

describe.each(NAMES)("%s", (name) => {
  it("accepts a token once", async () => {
    const [provider, token] = [make(name), issue(name)];
    expect(await provider.verify(token, expected)).toEqual({ ok: true, codes: [] });
    const reused = name === "hcaptcha" ? "already-seen-response" : "timeout-or-duplicate";
    expect(await provider.verify(token, expected)).toEqual({ ok: false, codes: [reused] });
  });

  it("sends one POST per verification, with the secret in the body only", async () => {
    const token = issue(name);
    await make(name).verify(token, expected);
    const [request, ...more] = servers[name].requests;
    expect(more).toEqual([]);
    expect([request?.method, request?.url]).toEqual(["POST", "/siteverify"]);
    const fields = { secret: SECRET, response: token, remoteip: "203.0.113.7" };
    expect(Object.fromEntries(request?.fields ?? [])).toEqual(
      name === "hcaptcha" ? { ...fields, sitekey: "site-key" } : fields,
    );
    const headers = request?.headers.join("\n") ?? "";
    expect(headers).toMatch(/content-type\napplication\/x-www-form-urlencoded/i);
    for (const spelling of [SECRET, encodeURIComponent(SECRET), "0x4AAAAAAAsecret"]) {
      expect(headers + request?.url).not.toContain(spelling);
    }
  });

  it("sends no address if it is unknown", async () => {
    await make(name).verify(issue(name), { ...expected, ip: "" });
    expect(servers[name].requests[0]?.fields.has("remoteip")).toBe(false);
  });

  it("refuses a token of another hostname", async () => {
    const verification = await make(name).verify(issue(name, { hostname: "evil.example" }), expected);
    expect(verification).toEqual({ ok: false, codes: ["hostname-mismatch"] });
  });

  it("compares with the option hostname instead of the Host header", async () => {
    const provider = make(name, { hostname: "Shop.example" });
    const token = () => issue(name, { hostname: "shop.example" });
    expect(await provider.verify(token(), { ...expected, hostname: "evil.example" })).toMatchObject({ ok: true });
    expect(await provider.verify(issue(name), expected)).toMatchObject({ ok: false });
  });

  it.each([
    [0, true],
    [300_000, true],
    [360_000, false],
  ])("checks the age of a token that the provider accepts: %s ms", async (ageMs, ok) => {
    const codes = ok ? [] : ["token-too-old"];
    expect(await make(name).verify(issue(name, { ageMs, isLenient: true }), expected)).toEqual({ ok, codes });
  });

  it("accepts a token of a provider whose clock is ahead", async () => {
    expect(await make(name).verify(issue(name, { ageMs: -60_000 }), expected)).toMatchObject({ ok: true });
  });

  it("refuses a token without a time", async () => {
    const token = issue(name, { fields: { challenge_ts: undefined } });
    expect(await make(name).verify(token, expected)).toEqual({ ok: false, codes: ["token-too-old"] });
  });

  it("refuses an old token with the provider's code", async () => {
    const code = name === "hcaptcha" ? "expired-input-response" : "timeout-or-duplicate";
    const verification = await make(name).verify(issue(name, { ageMs: 400_000 }), expected);
    expect(verification).toEqual({ ok: false, codes: [code] });
  });

  it("refuses an unknown token", async () => {
    expect(await make(name).verify("unknown", expected)).toEqual({ ok: false, codes: ["invalid-input-response"] });
  });

  it("refuses a long token without a request", async () => {
    const max = name === "turnstile" ? 2048 : 7168;
    await make(name).verify("x".repeat(max), expected);
    expect(servers[name].requests).toHaveLength(1);
    expect(await make(name).verify("x".repeat(max + 1), expected)).toEqual({
      ok: false,
      codes: ["invalid-input-response"],
    });
    expect(servers[name].requests).toHaveLength(1);
  });

  it.each<[Behaviour, RegExp]>([
    ["fail", /responded with status 500/],
    ["redirect", /responded with status 307/],
    ["garbage", /sent a reply that is not a verification result/],
    ["huge", /sent a reply that is not a verification result/],
    ["internal-error", /reported an internal error/],
    ["reset", /could not be reached/],
  ])("rejects if the provider is unavailable: %s", async (behaviour, message) => {
    servers[name].behave(behaviour);
    const error = await errorOf(make(name), issue(name));
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({ code: "provider-unavailable", isCallerError: false });
    expect(error.message).toMatch(message);
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain("secret+");
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(encodeURIComponent(SECRET));
    // A redirect is not followed, and nothing is sent twice, except that Deno repeats a request after a reset.
    const sent = behaviour === "reset" && "Deno" in globalThis ? 2 : 1;
    expect(servers[name].requests).toHaveLength(sent);
  });

  it.each<Behaviour>(["hang", "trickle"])("gives up after the timeout: %s", { timeout: 5000 }, async (behaviour) => {
    servers[name].behave(behaviour);
    const error = await errorOf(make(name, { timeoutMs: 50 }));
    expect(error.message).toContain(`The challenge provider "${name}" did not respond within 50 ms.`);
  });

  it("has a timeout of 3 s", async () => {
    const timeout = vi.spyOn(AbortSignal, "timeout");
    onTestFinished(() => timeout.mockRestore());
    await make(name).verify(issue(name), expected);
    expect(timeout.mock.calls).toEqual([[3000]]);
  });

  it("rejects if its secret is wrong, because nobody could pass", async () => {
    const secret = "0x4wrong-secret";
    const error = await errorOf(make(name, { secret }), issue(name));
    expect(error.message).toMatch(/refused the request \(invalid-input-secret\); check the secret/);
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(secret);
  });

  it("keeps the secret out of the provider object", () => {
    expect(inspect(make(name), { depth: 9, showHidden: true })).not.toContain("secret+");
    expect(JSON.stringify(make(name))).not.toContain("secret+");
  });
});

describe("actions", () => {
  it.each<[Name, object, object, boolean]>([
    ["turnstile", {}, { action: "login" }, false],
    ["turnstile", {}, { action: "" }, false],
    ["turnstile", {}, { fields: { action: undefined } }, false],
    ["recaptcha", { keyType: "score" }, { action: "login", score: 0.9 }, false],
    ["recaptcha", { keyType: "score" }, { score: 0.9 }, true],
    // Checkboxes have no action.
    ["recaptcha", {}, { action: "login" }, true],
  ])("of %s %j are compared: %j", async (name, options, token, ok) => {
    const verification = await make(name, options).verify(issue(name, token), expected);
    expect(verification).toMatchObject({ ok, codes: ok ? [] : ["action-mismatch"] });
  });
});

describe("turnstile", () => {
  it("accepts results of testing keys, which have another hostname and no action", async () => {
    const fields = { hostname: "example.com", action: undefined, metadata: { result_with_testing_key: true } };
    const token = servers.turnstile.issue({ fields });
    expect(await make("turnstile").verify(token, { ...expected, hostname: "localhost" })).toMatchObject({ ok: true });
  });

  it("reads a reply with status 400", async () => {
    vi.stubGlobal("fetch", async () => Response.json({ success: false, "error-codes": ["x"] }, { status: 400 }));
    onTestFinished(() => void vi.unstubAllGlobals());
    expect(await make("turnstile").verify("token", expected)).toEqual({ ok: false, codes: ["x"] });
  });

  it("passes on only codes that look like one", async () => {
    const codes = ["timeout-or-duplicate", SECRET, 7, null, "x".repeat(65), "a b"];
    vi.stubGlobal("fetch", async () => Response.json({ success: false, "error-codes": codes }));
    onTestFinished(() => void vi.unstubAllGlobals());
    expect(await make("turnstile").verify("token", expected)).toEqual({ ok: false, codes: ["timeout-or-duplicate"] });
  });
});

describe("hcaptcha", () => {
  it.each(["not-provided", undefined])("accepts the hostname %s, which it reports under load", async (hostname) => {
    const token = issue("hcaptcha", { fields: { hostname } });
    expect(await make("hcaptcha").verify(token, expected)).toMatchObject({ ok: true });
  });

  it("refuses tokens of another site key", async () => {
    const token = issue("hcaptcha", { siteKey: "other" });
    expect(await make("hcaptcha").verify(token, expected)).toEqual({ ok: false, codes: ["sitekey-secret-mismatch"] });
  });

  it("has scores of the opposite meaning, which are not passed on", async () => {
    const token = issue("hcaptcha", { fields: { score: 0 } });
    expect(await make("hcaptcha").verify(token, expected)).toEqual({ ok: true, codes: [] });
  });

  it("has no actions", () => {
    const options = { siteKey: "a", secret: "b", action: "login" };
    expect(() => hcaptcha(options)).toThrow('"action" is not an option of hcaptcha. hCaptcha has no actions.');
  });
});

describe("recaptcha", () => {
  it.each([
    [{ keyType: "score" }, 0.5, true],
    [{ keyType: "score" }, 0.49, false],
    [{ keyType: "score", minScore: 0.9 }, 0.8, false],
    [{ keyType: "score", minScore: 0 }, 0, true],
    // A checkbox with a score.
    [{}, 0.1, false],
  ] as const)("compares scores: %j, %s", async (options, score, ok) => {
    const verification = await make("recaptcha", options).verify(issue("recaptcha", { score }), expected);
    expect(verification).toEqual({ ok, codes: ok ? [] : ["low-score"], score });
  });

  it("refuses a result without a score if the key has scores", async () => {
    const token = issue("recaptcha", { fields: { action: "sluice" } });
    const verification = await make("recaptcha", { keyType: "score" }).verify(token, expected);
    expect(verification).toEqual({ ok: false, codes: ["low-score"] });
  });

  it("loads the script that the type of the key needs", () => {
    expect(make("recaptcha")).toMatchObject({
      scriptUrl: "https://www.google.com/recaptcha/api.js?render=explicit",
      widget: { object: "grecaptcha", execute: false },
    });
    expect(make("recaptcha", { keyType: "score" })).toMatchObject({
      scriptUrl: "https://www.google.com/recaptcha/api.js?render=site-key",
      widget: { object: "grecaptcha", execute: true },
    });
  });
});

describe("options", () => {
  const valid = { siteKey: "site-key", secret: SECRET };

  it.each<[Name, object, string]>([
    ["turnstile", { ...valid, siteKey: "" }, "siteKey must be a non-empty string."],
    ["turnstile", { ...valid, secret: 7 }, "secret must be a non-empty string."],
    ["turnstile", { siteKey: "a", secretKey: SECRET }, '"secretKey" is not an option of turnstile. Use secret.'],
    ["turnstile", { ...valid, hostname: "https://a.example" }, "hostname must be a hostname such as"],
    ["turnstile", { ...valid, hostname: "a.example:443" }, "hostname must be a hostname such as"],
    ["turnstile", { ...valid, action: "a b" }, "action must be a name that turnstile accepts"],
    ["turnstile", { ...valid, action: "x".repeat(33) }, "action must be a name that turnstile accepts"],
    ["recaptcha", { ...valid, action: "log-in" }, "action must be a name that recaptcha accepts"],
    ["recaptcha", { ...valid, minScore: 2 }, "minScore must be a number from 0 to 1"],
    ["recaptcha", { ...valid, keyType: "v3" }, 'keyType must be "checkbox" or "score"'],
    ["turnstile", { ...valid, minScore: 0.5 }, '"minScore" is not an option of turnstile'],
    ["turnstile", { ...valid, url: "http://example.com/" }, "url must be an https: URL"],
    ["turnstile", { ...valid, url: "http://127.0.0.1.example.com/" }, "url must be an https: URL"],
    ["turnstile", { ...valid, url: "siteverify" }, "url must be an https: URL"],
    ["turnstile", { ...valid, timeoutMs: 0 }, "timeoutMs must be a whole number >= 1"],
    ["turnstile", { ...valid, timeoutMs: 60_000 }, "timeoutMs must be at most 30000"],
  ])("of %s are checked: %j", (name, options, message) => {
    try {
      makers[name](options as ProviderOptions);
      expect.unreachable();
    } catch (error) {
      expect((error as Error).message).toContain(message);
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(SECRET);
    }
  });

  it.each([undefined, null, SECRET, [SECRET]])("must be an object", (options) => {
    try {
      turnstile(options as never);
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ code: "invalid-option" });
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(SECRET);
    }
  });

  it.each(["https://proxy.example/", "http://localhost:8080/", "http://[::1]:80/"])("allow the url %s", (url) => {
    expect(turnstile({ ...valid, url }).name).toBe("turnstile");
  });
});
