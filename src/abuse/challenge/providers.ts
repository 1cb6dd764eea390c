/** The providers of challenges: Cloudflare Turnstile, hCaptcha and Google reCAPTCHA. */
import { wallClockMs } from "../../base/clock.ts";
import { optionError } from "../../base/errors.ts";
import { checkWhole } from "../../base/options.ts";
import { checkSecretOptions } from "./check-secret-options.ts";
import {
  type ChallengeProvider,
  type ChallengeWidget,
  DEFAULT_ACTION,
  type ExpectedToken,
  type Verification,
} from "./provider.ts";
import { type SiteverifyReply, siteverify } from "./siteverify.ts";

/** Options of a provider. */
export interface ProviderOptions {
  /** The public key of the widget. */
  siteKey: string;
  /** The secret key that belongs to it. It is sent to the provider only, in the body of requests. */
  secret: string;
  /**
   * The hostname that tokens must be solved on. Default: the hostname in the request's `Host` header. Clients choose that
   * header, so set this option unless your server rejects other hostnames, or the widget is restricted to your domains.
   * Also set it behind a proxy that changes the header.
   */
  hostname?: string;
  /** The action that tokens must be made for, so that tokens of your other forms are refused. Default: `"sluice"`. */
  action?: string;
  /** Verification endpoint, for tests: an `https:` URL, or `http:` on this machine. Default: the provider's. */
  url?: string;
  /** Milliseconds to wait for the provider. Default: 3000. */
  timeoutMs?: number;
}

/** Options of hCaptcha, which has no actions. */
export type HcaptchaOptions = Omit<ProviderOptions, "action">;

/** Options of reCAPTCHA. */
export interface RecaptchaOptions extends ProviderOptions {
  /** The type of the site key: `"checkbox"` (v2) or `"score"` (v3, without a widget). Default: `"checkbox"`. */
  keyType?: "checkbox" | "score";
  /** The lowest score to accept, from 0 to 1, if the provider reports one. Default: 0.5. */
  minScore?: number;
}

/** Verifies solutions with Cloudflare Turnstile. */
export function turnstile(options: ProviderOptions): ChallengeProvider {
  return createProvider(options, {
    name: "turnstile",
    url: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
    scriptUrl: "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit",
    frameOrigin: "https://challenges.cloudflare.com",
    tokenField: "cf-turnstile-response",
    action: /^[A-Za-z0-9_-]{1,32}$/,
    maxTokenChars: 2048,
    // Results of testing keys name the host example.com and no action.
    check: (reply, expected) =>
      reply.isTest ? [] : [...mismatch("hostname", reply, expected), ...mismatch("action", reply, expected)],
  });
}

/** Verifies solutions with hCaptcha. */
export function hcaptcha(options: HcaptchaOptions): ChallengeProvider {
  const own = ["https://hcaptcha.com", "https://*.hcaptcha.com"];
  return createProvider(options, {
    name: "hcaptcha",
    url: "https://api.hcaptcha.com/siteverify",
    scriptUrl: "https://js.hcaptcha.com/1/api.js?render=explicit",
    // Its documentation warns against naming one host: they change.
    frameOrigin: "https://*.hcaptcha.com",
    tokenField: "h-captcha-response",
    maxTokenChars: MAX_TOKEN_CHARS,
    csp: { "script-src": own, "frame-src": own, "style-src": own, "connect-src": own },
    // Refuses tokens of the account's other site keys.
    fields: { sitekey: options?.siteKey },
    // Under heavy traffic, hCaptcha reports "not-provided".
    check: (reply, expected) =>
      reply.hostname === undefined || reply.hostname === "not-provided" ? [] : mismatch("hostname", reply, expected),
  });
}

/** Verifies solutions with Google reCAPTCHA. */
export function recaptcha(options: RecaptchaOptions): ChallengeProvider {
  const { keyType = "checkbox", minScore = 0.5 } = options ?? {};
  const isScore = keyType === "score";
  const provider = createProvider(options, {
    name: "recaptcha",
    url: "https://www.google.com/recaptcha/api/siteverify",
    scriptUrl: `https://www.google.com/recaptcha/api.js?render=${isScore ? encodeURIComponent(options?.siteKey) : "explicit"}`,
    frameOrigin: "https://www.google.com",
    tokenField: "g-recaptcha-response",
    action: /^[A-Za-z0-9_/]{1,100}$/,
    maxTokenChars: MAX_TOKEN_CHARS,
    widget: { object: "grecaptcha", execute: isScore },
    csp: {
      "script-src": ["https://www.gstatic.com"],
      "frame-src": ["https://recaptcha.google.com"],
      "connect-src": ["https://www.google.com"],
      "img-src": ["https://www.gstatic.com"],
      // https://github.com/google/recaptcha/issues/107
      "style-src": ["'unsafe-inline'"],
    },
    hasScores: true,
    more: ["keyType", "minScore"],
    check: (reply, expected) => [
      ...mismatch("hostname", reply, expected),
      // Checkboxes have neither action nor score.
      ...(isScore ? mismatch("action", reply, expected) : []),
      ...((reply.score ?? (isScore ? 0 : 1)) < minScore ? ["low-score"] : []),
    ],
  });
  if (keyType !== "checkbox" && keyType !== "score") {
    throw optionError("invalid-option", "keyType", '"checkbox" or "score"', keyType);
  }
  if (typeof minScore !== "number" || !(minScore >= 0 && minScore <= 1)) {
    throw optionError("invalid-option", "minScore", "a number from 0 to 1", minScore);
  }
  return provider;
}

/** The longest token of hCaptcha and reCAPTCHA, which document no limit. Tokens of 4000 characters were reported. */
const MAX_TOKEN_CHARS = 7168;

/** The longest age of a token: 5 minutes, and half a minute for clocks that differ. */
const MAX_TOKEN_AGE_MS = 330_000;
const DEFAULT_TIMEOUT_MS = 3000;
const MAX_TIMEOUT_MS = 30_000;
const OPTIONS = ["siteKey", "secret", "hostname", "url", "timeoutMs"];

/** What differs between the providers. */
interface Service {
  readonly name: string;
  readonly url: string;
  readonly scriptUrl: string;
  readonly frameOrigin: string;
  readonly tokenField: string;
  /** Actions that the provider accepts; absent if it has none. */
  readonly action?: RegExp;
  readonly maxTokenChars: number;
  readonly widget?: ChallengeWidget;
  readonly csp?: Readonly<Record<string, readonly string[]>>;
  /** Whether its scores are from 0 (a bot) to 1. Those of hCaptcha have the opposite meaning. */
  readonly hasScores?: boolean;
  /** Names of further options. */
  readonly more?: readonly string[];
  /** Further fields of the request. */
  readonly fields?: Readonly<Record<string, string>>;
  /** Codes of what is wrong with a token that the provider accepted. */
  check(reply: SiteverifyReply, expected: ExpectedToken): string[];
}

function createProvider(options: ProviderOptions, service: Service): ChallengeProvider {
  const { name, scriptUrl, frameOrigin, tokenField, widget, csp } = service;
  checkProviderOptions(options, service);
  const { siteKey, secret, hostname, action = DEFAULT_ACTION, url = service.url } = options;
  const to = { name, url, timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS };
  return {
    ...{ name, siteKey, scriptUrl, frameOrigin, tokenField, action },
    ...(widget && { widget }),
    ...(csp && { csp }),
    async verify(token, expected): Promise<Verification> {
      if (token.length > service.maxTokenChars) return { ok: false, codes: ["invalid-input-response"] };
      const remote = expected.ip === "" ? {} : { remoteip: expected.ip };
      const reply = await siteverify(to, { secret, response: token, ...remote, ...service.fields });
      const score = service.hasScores && reply.score !== undefined ? { score: reply.score } : {};
      if (!reply.success) return { ok: false, codes: reply.codes, ...score };
      const wanted = { ...expected, hostname: hostname?.toLowerCase() ?? expected.hostname };
      // Negated, so that a reply without a time is refused.
      const isOld = !(wallClockMs() - reply.solvedAt <= MAX_TOKEN_AGE_MS);
      const codes = [...service.check(reply, wanted), ...(isOld ? ["token-too-old"] : [])];
      return { ok: codes.length === 0, codes, ...score };
    },
  };
}

function mismatch(field: "hostname" | "action", reply: SiteverifyReply, expected: ExpectedToken): string[] {
  return reply[field] === expected[field] ? [] : [`${field}-mismatch`];
}

function checkProviderOptions(options: ProviderOptions, { name, action, more = [] }: Service): void {
  checkSecretOptions(name, options, [...OPTIONS, ...(action ? ["action"] : []), ...more], {
    secretKey: "Use secret.",
    sitekey: "Use siteKey.",
    ...(action ? {} : { action: "hCaptcha has no actions." }),
  });
  for (const option of ["siteKey", "secret"] as const) {
    const value: unknown = options[option];
    // Without the received value: the two keys are easily swapped.
    if (typeof value !== "string" || value === "") throw optionError("invalid-option", option, "a non-empty string");
  }
  const { hostname, url, timeoutMs } = options;
  if (hostname !== undefined && !(typeof hostname === "string" && /^[^\s/:]+$|^\[[^\s/]+\]$/.test(hostname))) {
    throw optionError(
      "invalid-option",
      "hostname",
      'a hostname such as "example.com", without scheme and port',
      hostname,
    );
  }
  if (options.action !== undefined && !(typeof options.action === "string" && action?.test(options.action))) {
    throw optionError("invalid-option", "action", `a name that ${name} accepts (${action?.source})`, options.action);
  }
  if (url !== undefined && !isSafeUrl(url)) {
    throw optionError("invalid-option", "url", "an https: URL, because the secret is sent there", url);
  }
  if (timeoutMs !== undefined) checkWhole("timeoutMs", timeoutMs, 1, MAX_TIMEOUT_MS);
}

/** Whether nobody on the network can read what is sent to this URL. */
function isSafeUrl(text: unknown): boolean {
  if (typeof text !== "string" || !URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === "https:" || (protocol === "http:" && /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname));
}
