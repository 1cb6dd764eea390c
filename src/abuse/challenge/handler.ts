/** Responds to requests that have to solve a challenge, and to solutions. */
import { bytesToHex } from "@noble/hashes/utils.js";
import { SluiceError } from "../../base/errors.ts";
import { type ResponseData, rejection } from "../../http/rejection.ts";
import type { ChallengeHandler, ChallengeRequest, Clearance } from "./challenge-types.ts";
import { CLEARANCE_HEADER, type ClearanceClient, type Clearances, clearanceText } from "./clearance.ts";
import { ENGLISH, type TranslatedMessages } from "./messages.ts";
import { type ChallengeContext, pagePolicy, renderChallengePage } from "./page.ts";
import { type ChallengeProvider, DEFAULT_ACTION, type Verification } from "./provider.ts";

/** A challenge, with everything configured. */
export interface ChallengeConfig {
  readonly provider: ChallengeProvider;
  readonly clearances: Clearances;
  readonly path: string;
  readonly lang: string;
  readonly messages: (acceptLanguage: string | undefined) => TranslatedMessages;
  readonly renderPage: ((context: ChallengeContext) => string) | undefined;
}

/** A solution is a token and a few characters around it. */
const MAX_BODY_BYTES = 8192;
const MAX_TOKEN_CHARS = 8000;
const RETRY_AFTER_SECONDS = 30;
const MITIGATED = "Sluice-Mitigated";

/** Returns the handler of a challenge. */
export function challengeHandler(config: ChallengeConfig): ChallengeHandler {
  const { provider, clearances, path } = config;
  /** Exchanges a token for a clearance. The request has been counted. */
  const exchange = async (token: string, request: ChallengeRequest): Promise<Clearance | ResponseData> => {
    const client = clientOf(request);
    if (!/^[\x21-\x7e]+$/.test(token) || token.length > MAX_TOKEN_CHARS) return failed(["invalid-input-response"]);
    if (!clearances.canIssue(client)) return failed(["unknown-ip-address"]);
    const verification = await verifyToken(provider, token, request);
    if (!verification) return unverified();
    const issued = verification.ok === true ? clearances.issue(client) : undefined;
    return issued ? clearanceFields(issued) : failed(verification.codes);
  };
  return {
    path,
    clearanceOf: (request) => clearances.verify(clearanceText(request), clientOf(request)),
    tokenOf: (request) => request.header("sluice-challenge-token") || undefined,
    isSolution: (request) => request.path.split("?", 1)[0] === path,

    // Requests of other sites need no protection: with a token of theirs, they only get a clearance for their visitor.
    async solve(request) {
      // Before the body is read: requests without a token cost as much as others.
      const denied = await countVerification(request);
      if (denied) return denied;
      if (request.method !== "POST") return problem(405, "Method Not Allowed", {}, { Allow: "POST" });
      const token = tokenIn(await request.body(MAX_BODY_BYTES), request.header("content-type"), provider.tokenField);
      const result = await exchange(token ?? "", request);
      if ("status" in result) return result;
      const headers = { ...result.set, "Access-Control-Expose-Headers": CLEARANCE_HEADER };
      return { status: 204, headers, body: null };
    },

    verify: async (token, request) => (await countVerification(request)) ?? exchange(token, request),

    respond(request, rule) {
      return wantsPage(request) ? page(config, request, rule) : challengeProblem(config, rule);
    },
  };
}

/** Counts a request with a solution, or to the path of solutions. Returns the response if there are too many. */
async function countVerification(request: ChallengeRequest): Promise<ResponseData | undefined> {
  const decision = await request.countVerification();
  return decision.allowed ? undefined : rejection(decision, undefined, request.header("accept"), {});
}

function clientOf(request: ChallengeRequest): ClearanceClient {
  return { ip: request.ip, userAgent: request.header("user-agent"), host: hostnameOf(request) };
}

/** Browsers before 2023 send no `Sec-Fetch-Mode`. */
function wantsPage(request: ChallengeRequest): boolean {
  const mode = request.header("sec-fetch-mode") ?? "navigate";
  return mode === "navigate" && /\btext\/html\b/i.test(request.header("accept") ?? "");
}

function page(config: ChallengeConfig, request: ChallengeRequest, rule: string): ResponseData {
  const { provider, renderPage = renderChallengePage } = config;
  const nonce = bytesToHex(crypto.getRandomValues(new Uint8Array(16)));
  const isHead = request.method === "HEAD";
  const headers = {
    ...MITIGATED_FIELDS,
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": pagePolicy(provider, nonce),
    // The provider gets the origin, which it compares with its own settings, and no path.
    "Referrer-Policy": "strict-origin-when-cross-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
  };
  return { status: 403, headers, body: isHead ? null : renderPage(contextOf(config, request, rule, nonce)) };
}

function contextOf(config: ChallengeConfig, request: ChallengeRequest, rule: string, nonce: string): ChallengeContext {
  const { provider, path } = config;
  const { name, siteKey, scriptUrl, tokenField, action = DEFAULT_ACTION, widget = { object: name } } = provider;
  const { lang = config.lang, ...messages } = config.messages(request.header("accept-language"));
  return {
    ...{ nonce, provider: name, siteKey, scriptUrl, widget, action, path, tokenField, rule, lang },
    isForm: request.method !== "GET",
    messages: { ...ENGLISH, ...messages },
  };
}

function challengeProblem({ provider, path }: ChallengeConfig, rule: string): ResponseData {
  const { name, siteKey, action = DEFAULT_ACTION } = provider;
  const challenge = { provider: name, siteKey, action, path };
  return problem(403, "Forbidden", { code: "challenge-required", rule, challenge }, MITIGATED_FIELDS);
}

const MITIGATED_FIELDS: Readonly<Record<string, string>> = {
  [MITIGATED]: "challenge",
  "Access-Control-Expose-Headers": MITIGATED,
  "Cache-Control": "no-store",
};

/** The result of the provider; `undefined` if it could not verify the token, which is reported. */
async function verifyToken(
  provider: ChallengeProvider,
  token: string,
  request: ChallengeRequest,
): Promise<Verification | undefined> {
  const { name, action = DEFAULT_ACTION } = provider;
  try {
    return await provider.verify(token, { ip: request.ip ?? "", hostname: hostnameOf(request), action });
  } catch (cause) {
    const message = `The challenge provider "${name}" could not verify a token. See the cause of this error.`;
    const error =
      cause instanceof SluiceError
        ? cause
        : new SluiceError("provider-unavailable", message, { option: "provider", cause });
    request.reports.providerDown(name, error);
    return undefined;
  }
}

/** The `Host` header without its port. */
function hostnameOf(request: ChallengeRequest): string {
  return (request.header("host") ?? "").replace(/:\d*$/, "").toLowerCase();
}

/** The token in the body of a solution: the member `token`, or the form field of the provider. */
function tokenIn(
  body: Uint8Array | { readonly parsed: unknown } | undefined,
  contentType: string | undefined,
  tokenField: string,
): string | undefined {
  const fields = body instanceof Uint8Array ? parseBody(body, contentType) : body?.parsed;
  if (typeof fields !== "object" || fields === null) return undefined;
  const name = ["token", tokenField].find((one) => Object.hasOwn(fields, one));
  const token: unknown = name === undefined ? undefined : (fields as Record<string, unknown>)[name];
  return typeof token === "string" ? token : undefined;
}

function parseBody(body: Uint8Array, contentType = ""): unknown {
  const text = new TextDecoder().decode(body);
  if (!/^application\/json\s*(?:;|$)/i.test(contentType)) return Object.fromEntries(new URLSearchParams(text));
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function clearanceFields({ id, text, cookie }: { id: string; text: string; cookie: string }): Clearance {
  // A cache would give this client's clearance to others.
  return { id, set: { "Set-Cookie": cookie, [CLEARANCE_HEADER]: text, "Cache-Control": "no-store" } };
}

function failed(codes: readonly string[]): ResponseData {
  return problem(403, "Forbidden", { code: "challenge-failed", codes });
}

/** The provider is unavailable. Fails closed: the caller is over its limit. */
function unverified(): ResponseData {
  const detail = "The solution could not be verified. Try again later.";
  return problem(429, "Too Many Requests", { detail }, { "Retry-After": String(RETRY_AFTER_SECONDS) });
}

function problem(
  status: number,
  title: string,
  members: Readonly<Record<string, unknown>>,
  fields: Readonly<Record<string, string>> = {},
): ResponseData {
  const headers = { ...fields, "Cache-Control": "no-store", "Content-Type": "application/problem+json" };
  return { status, headers, body: JSON.stringify({ type: "about:blank", title, status, ...members }) };
}
