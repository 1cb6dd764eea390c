/** Configures challenges: the page for people over a limit, and the clearance that they get for solving it. */
import { optionError } from "../../base/errors.ts";
import { checkWhole } from "../../base/options.ts";
import { type Duration, parseDuration } from "../../base/rate.ts";
import { CHALLENGE, type Challenge } from "./challenge-types.ts";
import { checkSecretOptions } from "./check-secret-options.ts";
import { type BindTo, Clearances } from "./clearance.ts";
import { challengeHandler } from "./handler.ts";
import { ENGLISH, type TranslatedMessages } from "./messages.ts";
import type { ChallengeContext } from "./page.ts";
import type { ChallengeProvider } from "./provider.ts";

/** Options of `challenge`. */
export interface ChallengeOptions {
  /** Who verifies solutions: `turnstile(...)`, `hcaptcha(...)`, `recaptcha(...)` or your own. */
  provider: ChallengeProvider;
  /**
   * Keys that sign clearances, newest first; at least 32 random bytes each. To rotate, put the new key first and remove the
   * old one after `ttl`.
   */
  secret: readonly [string | Uint8Array, (string | Uint8Array | undefined)?];
  /** Lifetime of a clearance, at most 30 days. Default: `"30m"`. */
  ttl?: Duration;
  /** Path that receives solutions. Default: `"/.sluice/clearance"`. */
  path?: string;
  /**
   * Client properties that a clearance is bound to. The network is /24 of IPv4 and /56 of IPv6, so clients that change
   * between the two have to solve another challenge. Default: `"network+user-agent"`.
   */
  bindTo?: BindTo;
  /** Language of the page, such as `"de"`. Default: `"en"`. */
  lang?: string;
  /**
   * Texts of the page that replace the English ones, or a function that returns them for the request's `Accept-Language`
   * header, with their `lang`. Default: English.
   */
  messages?: TranslatedMessages | ((acceptLanguage: string | undefined) => TranslatedMessages);
  /** Renders the page as HTML. Default: a built-in page. */
  renderPage?: (context: ChallengeContext) => string;
}

const OPTIONS = ["provider", "secret", "ttl", "path", "bindTo", "lang", "messages", "renderPage"];
const MIN_SECRET_BYTES = 32;
const MIN_TTL_MS = 1000;
const MAX_TTL_MS = 30 * 86_400_000;
const PATH = /^\/[\w.~!$&'()*+,;=:@-][\w.~!$&'()*+,;=:@/-]{0,199}$/;
const LANG = /^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*$/;

/** Configures a challenge page and the clearance that callers get for solving it. */
export function challenge(options: ChallengeOptions): Challenge {
  checkSecretOptions("challenge", options, OPTIONS, { secrets: "Use secret.", keys: "Use secret." });
  const { provider, secret, ttl = "30m", path = "/.sluice/clearance", bindTo = "network+user-agent" } = options;
  const { lang = "en", messages, renderPage } = options;
  checkProvider(provider);
  const ttlMs = checkWhole("challenge.ttl", parseDuration("challenge.ttl", ttl), MIN_TTL_MS, MAX_TTL_MS);
  if (typeof path !== "string" || !PATH.test(path)) {
    throw optionError("invalid-option", "challenge.path", 'a path such as "/.sluice/clearance"', path);
  }
  if (bindTo !== "network+user-agent" && bindTo !== "user-agent") {
    throw optionError("invalid-option", "challenge.bindTo", '"network+user-agent" or "user-agent"', bindTo);
  }
  checkLang("challenge.lang", lang);
  if (messages !== undefined && typeof messages !== "function") checkMessages(messages);
  if (renderPage !== undefined && typeof renderPage !== "function") {
    throw optionError("invalid-option", "challenge.renderPage", "a function that returns HTML", renderPage);
  }
  const clearances = new Clearances({ secrets: checkSecrets(secret), ttlMs, bindTo });
  const translated = typeof messages === "function" ? messages : () => messages ?? {};
  const handler = challengeHandler({ provider, clearances, path, lang, messages: translated, renderPage });
  return { [CHALLENGE]: handler };
}

/** Returns the keys as bytes. No error contains one. */
function checkSecrets(secret: unknown): Uint8Array[] {
  if (!Array.isArray(secret) || secret.length < 1 || secret.length > 2) {
    throw optionError("invalid-option", "challenge.secret", "an array of one or two keys, newest first");
  }
  // `[process.env.NEW_KEY, process.env.OLD_KEY]`, where the second may be undefined.
  const keys = secret.filter((key, i) => i === 0 || key !== undefined).map(secretBytes);
  const [first, second] = keys;
  if (second && String(first) === String(second)) {
    throw optionError("invalid-option", "challenge.secret", "two different keys");
  }
  return keys;
}

function secretBytes(key: unknown, i: number): Uint8Array {
  // A copy: the array belongs to the caller, who may clear it.
  const bytes =
    typeof key === "string" ? new TextEncoder().encode(key) : key instanceof Uint8Array ? key.slice() : undefined;
  if (!bytes) throw optionError("invalid-option", `challenge.secret[${i}]`, "a string or a Uint8Array");
  if (bytes.length >= MIN_SECRET_BYTES) return bytes;
  throw optionError("invalid-option", `challenge.secret[${i}]`, `at least ${MIN_SECRET_BYTES} bytes long`);
}

function checkProvider(provider: unknown): asserts provider is ChallengeProvider {
  const expected = "a provider such as turnstile({ siteKey, secret })";
  if (typeof provider !== "object" || provider === null) {
    throw optionError("invalid-option", "challenge.provider", expected, provider);
  }
  const { verify, scriptUrl, frameOrigin, csp = {}, ...rest } = provider as ChallengeProvider;
  if (typeof verify !== "function") throw optionError("invalid-option", "challenge.provider", expected);
  for (const name of ["name", "siteKey", "tokenField"] as const) {
    const value: unknown = rest[name];
    if (typeof value !== "string" || value === "") {
      throw optionError("invalid-option", `challenge.provider.${name}`, "a non-empty string", value);
    }
  }
  if (typeof scriptUrl !== "string" || !/^https?:/.test(scriptUrl) || !URL.canParse(scriptUrl)) {
    throw optionError("invalid-option", "challenge.provider.scriptUrl", "a URL", scriptUrl);
  }
  checkSources("challenge.provider.frameOrigin", [frameOrigin]);
  for (const [name, sources] of Object.entries(csp)) checkSources(`challenge.provider.csp.${name}`, sources);
}

/** A source with a separator would change other directives of the policy. */
function checkSources(option: string, sources: readonly unknown[]): void {
  const bad = sources.find((source) => typeof source !== "string" || !/^[^\s;,]+$/.test(source));
  if (bad !== undefined || sources.includes(undefined)) {
    throw optionError("invalid-option", option, 'sources such as "https://example.com"', bad);
  }
}

function checkMessages(messages: unknown): void {
  checkSecretOptions("challenge.messages", messages, [...Object.keys(ENGLISH), "lang"]);
  for (const [name, value] of Object.entries(messages as TranslatedMessages)) {
    if (name === "lang") checkLang("challenge.messages.lang", value);
    else if (typeof value !== "string")
      throw optionError("invalid-option", `challenge.messages.${name}`, "a string", value);
  }
}

function checkLang(option: string, lang: unknown): void {
  if (typeof lang !== "string" || !LANG.test(lang)) {
    throw optionError("invalid-option", option, 'a language such as "de" or "pt-BR"', lang);
  }
}
