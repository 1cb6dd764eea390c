/** The answer to a request that does not go on, as data: status, headers and a problem body (RFC 9457). */
import type { Decision, Denied } from "../core/decision.ts";
import { optionError } from "../core/errors.ts";
import { prefersText } from "./accept.ts";
import {
  checkPolicies,
  type HeaderFacts,
  type HeaderFields,
  type HeaderOptions,
  headerWriter,
  listOf,
  type Policies,
  seconds,
} from "./headers/rate-limit-headers.ts";

/** What to send. */
export interface Answer {
  readonly status: number;
  /** To be set on the response. They replace earlier values of the same names, but RateLimit fields add to them. */
  readonly headers: HeaderFields;
  /** A JSON problem document, or plain text for clients that prefer it. */
  readonly body: string;
}

/** The answer to a denied request. */
export interface Rejection extends Answer {
  /** 429, or 503 when the store could not be asked. */
  readonly status: 429 | 503;
}

/** How the answer is written. */
export interface RejectionOptions extends HeaderFacts {
  /** The request's `Accept` header. Default: none, which is answered with JSON. */
  accept?: string | undefined;
  /** How the RateLimit fields are written; `false` for none. Default: draft-8. */
  headers?: HeaderOptions | false;
}

const TYPES = "https://iana.org/assignments/http-problem-types#";

/** The answer to a denied request. */
export function tooManyRequests(decision: Denied, policies: Policies, options: RejectionOptions = {}): Rejection {
  const { accept, headers, ...facts } = options;
  if ((decision as Decision | undefined)?.allowed !== false) {
    throw optionError("invalid-option", "decision", "a denied decision: check decision.allowed first", decision);
  }
  checkPolicies(policies);
  const fields = headers === false ? {} : headerWriter(headers)(decision, policies, facts);
  return rejection(decision, policies, accept, fields, headers ? headers.unit : undefined);
}

/** The same with the RateLimit fields at hand. */
export function rejection(
  decision: Denied,
  policies: Policies | undefined,
  accept: string | undefined,
  fields: HeaderFields,
  unit = "requests",
): Rejection {
  const { retryAfterMs } = decision;
  const asText = prefersText(accept);
  const headers: HeaderFields = {};
  // Limiters of others may not know it.
  if (retryAfterMs !== null && retryAfterMs < Infinity) headers["Retry-After"] = String(seconds(retryAfterMs));
  for (const name in fields) headers[name] = fields[name] as string;
  headers["Cache-Control"] = "no-store";
  headers["Content-Type"] = asText ? TEXT : JSON_PROBLEM;
  return { status: decision.unavailable ? 503 : 429, headers, body: bodyOf(decision, policies, asText, unit) };
}

const TEXT = "text/plain; charset=utf-8";
const JSON_PROBLEM = "application/problem+json";

/** Most denials of a policy have the same body, and under a flood it is all that is sent. */
const bodies = new WeakMap<Policies, Map<string, string>>();

function bodyOf(decision: Denied, policies: Policies | undefined, asText: boolean, unit: string): string {
  const { parts, policy, unavailable, degraded, retryAfterMs } = decision;
  // The name has to be one of the limiter's own: limiters of others could fill the cache with new ones.
  const cacheable =
    policies && !parts && !unavailable && !degraded && retryAfterMs !== null && isNamed(policies, policy);
  if (!cacheable) return problemOf(decision, policies, asText, unit);
  let known = bodies.get(policies);
  if (!known) bodies.set(policies, (known = new Map()));
  // Policies of one limiter may deny one at a time, as those of hybridRateLimiter do.
  const form = `${asText ? "text" : "json"} ${unit}\n${policy}`;
  let body = known.get(form);
  if (body === undefined) known.set(form, (body = problemOf(decision, policies, asText, unit)));
  return body;
}

function isNamed(policies: Policies, policy: string): boolean {
  return listOf(policies).some(({ name }) => name === policy);
}

function problemOf(decision: Denied, policies: Policies | undefined, asText: boolean, unit: string): string {
  const { unavailable, retryAfterMs } = decision;
  const problem = {
    type: `${TYPES}${unavailable ? "temporary-reduced-capacity" : "quota-exceeded"}`,
    title: unavailable ? "Temporary Reduced Capacity" : "Quota Exceeded",
    status: unavailable ? 503 : 429,
    detail: detailOf(decision, policies, unit),
    "violated-policies": violated(decision),
    ...(retryAfterMs === null ? { retryable: false } : {}),
  };
  return written(problem, asText);
}

/** The answer to a connection beyond those that may be open at once. When one of them ends, nobody knows. */
export function tooManyConnections(limit: number, accept: string | undefined): Answer {
  const asText = prefersText(accept);
  const detail = `Limit of ${limit} open connections reached.`;
  return {
    status: 429,
    headers: { "Cache-Control": "no-store", "Content-Type": asText ? TEXT : JSON_PROBLEM },
    body: written({ type: "about:blank", title: "Too Many Requests", status: 429, detail }, asText),
  };
}

/** The answer when the limiter itself is at fault. It tells a stranger nothing. */
export function internalError(accept: string | undefined): Answer {
  const asText = prefersText(accept);
  const detail = "The request could not be checked.";
  return {
    status: 500,
    headers: { "Cache-Control": "no-store", "Content-Type": asText ? TEXT : JSON_PROBLEM },
    body: written({ type: "about:blank", title: "Internal Server Error", status: 500, detail }, asText),
  };
}

function written(problem: { type: string; title: string; status: number; detail: string }, asText: boolean): string {
  return asText ? `${problem.title}. ${problem.detail}\n` : JSON.stringify(problem);
}

/** Headers for a body that somebody else writes. */
export function withoutType({ "Content-Type": _, ...headers }: HeaderFields): HeaderFields {
  return headers;
}

/** The names of the policies that denied, each once. */
function violated(decision: Decision): string[] {
  const parts = decision.parts ?? [decision];
  return [...new Set(parts.filter((part) => !part.allowed && part.policy).map((part) => part.policy))];
}

/** One sentence for a person. It tells nothing of keys or stores. */
function detailOf(
  { policy, unavailable, retryAfterMs, limit }: Denied,
  policies: Policies | undefined,
  unit: string,
): string {
  if (unavailable) return "The limit could not be checked. Try again later.";
  if (retryAfterMs === null) return `This request costs more than the limit of ${limit} and can never be allowed.`;
  const binding = policies && listOf(policies).find(({ name }) => name === policy);
  if (!binding) return "The limit is reached. Try again later.";
  return `Limit of ${limit} ${unit} per ${seconds(binding.windowMs)} s reached.`;
}
