/** Builds the responses to rejected requests as data: status, headers and a problem document (RFC 9457). */

import { optionError } from "../base/errors.ts";
import type { Decision, Denied } from "../core/decision.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import { prefersText } from "./accept.ts";
import type { HeaderContext, HeaderFields } from "./headers/field-writer.ts";
import { checkPolicies, isConcurrency, isPenalty, type Policies, policyList, waitBefore } from "./headers/policies.ts";
import { type HeaderOptions, headerWriter } from "./headers/rate-limit-headers.ts";
import { toSeconds } from "./headers/structured-fields.ts";
import type { ResponseFields } from "./response.ts";

/** A response as data. */
export interface ResponseData {
  /** The status code. */
  readonly status: number;
  /** Headers to set. They replace earlier values of the same name; cookies are added to earlier ones. */
  readonly headers: ResponseFields;
  /** The body; `null` for none. */
  readonly body: string | Uint8Array | null;
}

/** The response to a request that is not handled because of a problem. */
export interface ProblemResponse extends ResponseData {
  /** Headers to set. They replace earlier values of the same name, except that RateLimit fields are added to a list. */
  readonly headers: HeaderFields;
  /** A JSON problem document, or plain text for clients that prefer it. */
  readonly body: string;
}

/** The response to a denied request. */
export interface Rejection extends ProblemResponse {
  /** 429, or 503 if the store was unavailable. */
  readonly status: 429 | 503;
}

/** How the response to a denied request is written. */
export interface RejectionOptions extends HeaderContext {
  /** The request's `Accept` header. Default: none, which selects JSON. */
  accept?: string | undefined;
  /** How the RateLimit fields are written; `false` for none. Default: draft-8. */
  headers?: HeaderOptions | false;
}

const TYPES = "https://iana.org/assignments/http-problem-types#";
const TEXT = "text/plain; charset=utf-8";
const JSON_PROBLEM = "application/problem+json";

/** Returns the response to a denied request: 429 with `Retry-After`, RateLimit fields and a problem document. */
export function tooManyRequests(decision: Denied, policies: Policies, options: RejectionOptions = {}): Rejection {
  const { accept, headers, ...context } = options;
  if ((decision as Decision | undefined)?.allowed !== false) {
    throw optionError("invalid-option", "decision", "a denied decision (check decision.allowed first)", decision);
  }
  checkPolicies(policies);
  const fields = headers === false ? {} : headerWriter(headers)(decision, policies, context);
  return rejection(decision, policies, accept, fields, headers ? headers.unit : undefined);
}

/** Like `tooManyRequests`, with RateLimit fields that are already written. */
export function rejection(
  decision: Denied,
  policies: Policies | undefined,
  accept: string | undefined,
  fields: HeaderFields,
  unit = "requests",
  rule?: string,
): Rejection {
  const waitMs = waitBefore(decision);
  const asText = prefersText(accept);
  const headers: HeaderFields = {};
  // A third-party limiter may leave retryAfterMs out, or return Infinity.
  const hasWait = waitMs !== null && waitMs < Infinity;
  if (hasWait) headers["Retry-After"] = String(toSeconds(waitMs));
  for (const name in fields) headers[name] = fields[name] as string;
  headers["Cache-Control"] = "no-store";
  headers["Content-Type"] = asText ? TEXT : JSON_PROBLEM;
  const body = bodyOf(decision, policies, asText, unit, rule);
  return {
    status: decision.unavailable ? 503 : 429,
    headers,
    body: hasWait && !asText ? withWait(body, waitMs) : body,
  };
}

/** Adds the exact wait, which differs from one denial to the next, to a JSON problem that may be cached. */
function withWait(problem: string, waitMs: number): string {
  return `${problem.slice(0, -1)},"retryAfterMs":${Math.max(0, Math.ceil(waitMs))}}`;
}

/** The response to a connection over the limit of open ones. It has no `Retry-After`: when one closes is unknown. */
export function tooManyConnections(limit: number, accept: string | undefined): ProblemResponse {
  return plainProblem(429, "Too Many Requests", `Limit of ${limit} open connections reached.`, accept);
}

/** The response when a request could not be checked. It contains no details: they may name keys or servers. */
export function internalError(accept: string | undefined): ProblemResponse {
  return plainProblem(500, "Internal Server Error", "The request could not be checked.", accept);
}

/** The headers without `Content-Type`, for a body that the application writes. */
export function withoutContentType({ "Content-Type": _, ...headers }: HeaderFields): HeaderFields {
  return headers;
}

/** What a body is made from besides the decision. */
interface BodyParts {
  readonly policy: string;
  readonly asText: boolean;
  readonly unit: string;
  readonly rule: string | undefined;
}

/** The bodies of some policies. Most denials of a policy have the same body, and a flood is mostly denials. */
interface CachedBodies {
  readonly byParts: Map<string, string>;
  /** The last body of a single policy, which is found without creating a text to look it up by. */
  last?: BodyParts & { readonly body: string };
}
const cachedBodies = new WeakMap<Policies, CachedBodies>();

function bodyOf(
  decision: Denied,
  policies: Policies | undefined,
  asText: boolean,
  unit: string,
  rule: string | undefined,
): string {
  const { parts, policy, unavailable, degraded, retryAfterMs } = decision;
  if (!policies || (parts && rule === undefined) || unavailable || degraded || retryAfterMs === null) {
    return problemBody(decision, policies, asText, unit, rule);
  }
  const cached = cachedBodies.get(policies);
  const last = parts ? undefined : cached?.last;
  if (last?.policy === policy && last.asText === asText && last.unit === unit && last.rule === rule) return last.body;
  // Only names of the limiter's own policies: a third-party limiter could fill the cache with new names.
  if (!includesName(policies, policy)) return problemBody(decision, policies, asText, unit, rule);
  const bodies: CachedBodies = cached ?? { byParts: new Map() };
  if (!cached) cachedBodies.set(policies, bodies);
  // The policies of hybridRateLimiter deny one at a time, so the name is part of the cache key.
  const violated = parts ? violatedPolicies(decision).join("\n") : "";
  const cacheKey = `${asText ? "text" : "json"} ${unit}\n${policy}\n${rule ?? ""}\n${violated}`;
  let body = bodies.byParts.get(cacheKey);
  if (body === undefined) {
    body = problemBody(decision, policies, asText, unit, rule);
    bodies.byParts.set(cacheKey, body);
  }
  if (!parts) bodies.last = { policy, asText, unit, rule, body };
  return body;
}

function includesName(policies: Policies, policy: string): boolean {
  return policyList(policies).some(({ name }) => name === policy);
}

function problemBody(
  decision: Denied,
  policies: Policies | undefined,
  asText: boolean,
  unit: string,
  rule: string | undefined,
): string {
  const { unavailable, retryAfterMs } = decision;
  const [type, title] = unavailable
    ? ["temporary-reduced-capacity", "Temporary Reduced Capacity"]
    : isBlocked(decision, policies)
      ? ["abnormal-usage-detected", "Abnormal Usage Detected"]
      : ["quota-exceeded", "Quota Exceeded"];
  const problem = {
    type: `${TYPES}${type}`,
    title,
    status: unavailable ? 503 : 429,
    detail: detailOf(decision, policies, unit),
    "violated-policies": violatedPolicies(decision),
    ...(rule === undefined ? {} : { rule }),
    ...(retryAfterMs === null ? { retryable: false } : {}),
  };
  return serialize(problem, asText);
}

/** A problem that has no type of its own. Without a detail, the response does not say why. */
export function plainProblem(
  status: number,
  title: string,
  detail: string | undefined,
  accept: string | undefined,
): ProblemResponse {
  const asText = prefersText(accept);
  return {
    status,
    headers: { "Cache-Control": "no-store", "Content-Type": asText ? TEXT : JSON_PROBLEM },
    body: serialize({ type: "about:blank", title, status, detail }, asText),
  };
}

function serialize<P extends { title: string; detail: string | undefined }>(problem: P, asText: boolean): string {
  const { title, detail } = problem;
  return asText ? `${detail === undefined ? title : `${title}. ${detail}`}\n` : JSON.stringify(problem);
}

/** The names of the policies that denied, each once. */
function violatedPolicies(decision: Decision): string[] {
  const parts = decision.parts ?? [decision];
  return [...new Set(parts.filter((part) => !part.allowed && part.policy).map((part) => part.policy))];
}

/** The policy that denied. */
function limitingPolicy({ policy }: Denied, policies: Policies | undefined): ResolvedPolicy | undefined {
  return policies && policyList(policies).find(({ name }) => name === policy);
}

/** Whether a penalty denied, also if another policy makes the caller wait longer. */
function isBlocked({ parts, policy }: Denied, policies: Policies | undefined): boolean {
  if (!policies) return false;
  const names = parts ? parts.filter(({ allowed }) => !allowed).map((part) => part.policy) : [policy];
  return policyList(policies).some((one) => isPenalty(one) && names.includes(one.name));
}

/** One sentence for a person. It names neither keys nor stores. */
function detailOf(decision: Denied, policies: Policies | undefined, unit: string): string {
  const { unavailable, retryAfterMs, limit } = decision;
  if (unavailable) return "The limit could not be checked. Try again later.";
  if (retryAfterMs === null) return `This request costs more than the limit of ${limit} and can never be allowed.`;
  const limiting = limitingPolicy(decision, policies);
  if (!limiting) return "The limit is reached. Try again later.";
  if (isBlocked(decision, policies)) return "Blocked after repeated violations of a limit. Try again later.";
  if (isConcurrency(limiting)) return `Limit of ${limit} concurrent requests reached.`;
  return `Limit of ${limit} ${limiting.unit ?? unit} per ${toSeconds(limiting.windowMs)} s reached.`;
}
