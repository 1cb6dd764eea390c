import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { type ChallengeOptions, challenge } from "./challenge.ts";
import { CHALLENGE } from "./challenge-types.ts";
import { turnstile } from "./providers.ts";

const SHORT = "short-key-that-must-stay-hidden";
const KEY = "a-long-key-that-must-stay-hidden!";
const provider = turnstile({ siteKey: "site-key", secret: "provider-secret" });
const valid = { provider, secret: [KEY] } as const;

describe("the options of challenge", () => {
  it.each<[object, string]>([
    [{ provider }, "challenge.secret must be an array of one or two keys, newest first."],
    [{ provider, secret: KEY }, "challenge.secret must be an array of one or two keys, newest first."],
    [{ provider, secret: [] }, "challenge.secret must be an array of one or two keys, newest first."],
    [{ provider, secret: [KEY, `${KEY}2`, `${KEY}3`] }, "challenge.secret must be an array of one or two keys"],
    [{ provider, secret: [undefined] }, "challenge.secret[0] must be a string or a Uint8Array."],
    [{ provider, secret: [SHORT] }, "challenge.secret[0] must be at least 32 bytes long."],
    [{ provider, secret: [KEY, SHORT] }, "challenge.secret[1] must be at least 32 bytes long."],
    [{ provider, secret: [new TextEncoder().encode(SHORT)] }, "challenge.secret[0] must be at least 32 bytes long."],
    [{ provider, secret: [KEY, KEY] }, "challenge.secret must be two different keys."],
    [{ provider, secrets: [KEY] }, '"secrets" is not an option of challenge. Use secret.'],
    [{ ...valid, ttl: "soon" }, "challenge.ttl must be a number of milliseconds, or text"],
    [{ ...valid, ttl: "999ms" }, "challenge.ttl must be a whole number >= 1000"],
    [{ ...valid, ttl: "31d" }, "challenge.ttl must be at most 2592000000"],
    [{ ...valid, path: "clearance" }, "challenge.path must be a path such as"],
    [{ ...valid, path: "/" }, "challenge.path must be a path such as"],
    [{ ...valid, path: "//evil.example/" }, "challenge.path must be a path such as"],
    [{ ...valid, path: "/a?b" }, "challenge.path must be a path such as"],
    [{ ...valid, bindTo: "ip" }, 'challenge.bindTo must be "network+user-agent" or "user-agent"'],
    [{ ...valid, lang: "German!" }, "challenge.lang must be a language such as"],
    [{ ...valid, messages: { heading: "x" } }, '"heading" is not an option of challenge.messages.'],
    [{ ...valid, messages: { title: 7 } }, "challenge.messages.title must be a string, but received 7."],
    [{ ...valid, messages: { lang: "<" } }, "challenge.messages.lang must be a language such as"],
    [{ ...valid, renderPage: "<h1>" }, "challenge.renderPage must be a function that returns HTML"],
    [
      { ...valid, provider: "turnstile" },
      "challenge.provider must be a provider such as turnstile({ siteKey, secret })",
    ],
    [{ ...valid, provider: turnstile }, "challenge.provider must be a provider such as turnstile({ siteKey, secret })"],
    [{ ...valid, provider: { ...provider, verify: 1 } }, "challenge.provider must be a provider such as"],
    [{ ...valid, provider: { ...provider, name: "" } }, "challenge.provider.name must be a non-empty string"],
    [{ ...valid, provider: { ...provider, scriptUrl: "javascript:1" } }, "challenge.provider.scriptUrl must be a URL"],
    [{ ...valid, provider: { ...provider, frameOrigin: "a; b" } }, "challenge.provider.frameOrigin must be sources"],
    [{ ...valid, provider: { ...provider, frameOrigin: undefined } }, "challenge.provider.frameOrigin must be sources"],
    [
      { ...valid, provider: { ...provider, csp: { "img-src": ["a b"] } } },
      "challenge.provider.csp.img-src must be sources",
    ],
  ])("are checked: %j", (options, message) => {
    try {
      challenge(options as unknown as ChallengeOptions);
      expect.unreachable();
    } catch (error) {
      expect((error as Error).message).toContain(message);
      expect(inspect(error, { depth: 9, showHidden: true })).not.toMatch(/must-stay-hidden|115, 104, 111, 114, 116/);
    }
  });

  it.each<[Partial<ChallengeOptions>]>([
    [{}],
    [{ secret: [KEY, undefined] }],
    [{ secret: [new Uint8Array(32), KEY] }],
    [{ ttl: 1000, path: "/solve", bindTo: "user-agent", lang: "pt-BR", messages: { title: "x", lang: "de" } }],
    [{ messages: () => ({}), renderPage: () => "" }],
  ])("are accepted: %j", (options) => {
    expect(challenge({ ...valid, ...options })[CHALLENGE].path).toBe(options.path ?? "/.sluice/clearance");
  });

  it("are not part of the challenge", () => {
    const seen = inspect(challenge(valid), { depth: 9, showHidden: true });
    expect(seen).not.toMatch(/must-stay-hidden|provider-secret/);
  });
});
