import { describe, expect, it } from "vitest";
import { ENGLISH } from "./messages.ts";
import { type ChallengeContext, pagePolicy, renderChallengePage } from "./page.ts";
import { hcaptcha, recaptcha, turnstile } from "./providers.ts";

const keys = { siteKey: "site-key", secret: "secret" };
const context: ChallengeContext = {
  nonce: "0123456789abcdef",
  provider: "turnstile",
  siteKey: "site-key",
  scriptUrl: "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit",
  widget: { object: "turnstile" },
  action: "sluice",
  path: "/.sluice/clearance",
  tokenField: "cf-turnstile-response",
  rule: "login",
  isForm: false,
  messages: ENGLISH,
  lang: "en",
};

describe("the page", () => {
  it("has at most 5 kB, and 2.5 kB when compressed", async () => {
    const page = renderChallengePage(context);
    expect(page.length).toBeLessThanOrEqual(5000);
    const stream = new Blob([page]).stream().pipeThrough(new CompressionStream("gzip"));
    expect((await new Response(stream).arrayBuffer()).byteLength).toBeLessThanOrEqual(2500);
  });

  it("has the nonce on every script and style, and no inline handlers or styles", () => {
    const page = renderChallengePage(context);
    const elements = page.match(/<(?:script|style)\b[^>]*>/g) ?? [];
    expect(elements).toEqual(['<style nonce="0123456789abcdef">', '<script nonce="0123456789abcdef">']);
    expect(page).not.toMatch(/ (?:on\w+|style)=["']/);
  });

  it("escapes every text", () => {
    const evil = `</script><img src=x onerror="alert('1')">&amp;`;
    const messages = Object.fromEntries(Object.keys(ENGLISH).map((name) => [name, evil])) as never;
    for (const isForm of [false, true]) {
      const page = renderChallengePage({
        ...context,
        isForm,
        siteKey: evil,
        action: evil,
        path: evil,
        lang: evil,
        messages,
      });
      expect(page).not.toContain("<img");
      expect(page.match(/<\/script>/g)).toHaveLength(1);
      expect(page).toContain("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;amp;");
    }
  });

  it("does not contain the name of the rule", () => {
    expect(renderChallengePage({ ...context, rule: "secret-rule" })).not.toContain("secret-rule");
  });

  it.each([
    ["de", false],
    ["ar-EG", true],
    ["he", true],
    ["arn", false],
  ])("in %s is written from right to left: %s", (lang, isRtl) => {
    expect(renderChallengePage({ ...context, lang }).includes(`<html lang="${lang}" dir="rtl">`)).toBe(isRtl);
  });
});

describe("the Content-Security-Policy", () => {
  const common = "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

  it.each([
    [
      turnstile(keys),
      `default-src 'none'; script-src 'nonce-n' 'strict-dynamic' https://challenges.cloudflare.com; style-src 'nonce-n'; frame-src https://challenges.cloudflare.com; connect-src 'self'; ${common}`,
    ],
    [
      hcaptcha(keys),
      `default-src 'none'; script-src 'nonce-n' 'strict-dynamic' https://js.hcaptcha.com https://hcaptcha.com https://*.hcaptcha.com; style-src 'nonce-n' https://hcaptcha.com https://*.hcaptcha.com; frame-src https://*.hcaptcha.com https://hcaptcha.com; connect-src 'self' https://hcaptcha.com https://*.hcaptcha.com; ${common}`,
    ],
    [
      recaptcha(keys),
      `default-src 'none'; script-src 'nonce-n' 'strict-dynamic' https://www.google.com https://www.gstatic.com; style-src 'unsafe-inline'; frame-src https://www.google.com https://recaptcha.google.com; connect-src 'self' https://www.google.com; img-src https://www.gstatic.com; ${common}`,
    ],
  ])("of $name", (provider, policy) => {
    expect(pagePolicy(provider, "n")).toBe(policy);
  });
});
