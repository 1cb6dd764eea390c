/** The answer to a denied request, as data: status, headers and a problem body (RFC 9457). */
import type { Decision, Denied } from "../core/decision.ts";
import { prefersText } from "./accept.ts";
import { type HeaderFields, listOf, type Policies, rateLimitHeaders, seconds } from "./headers.ts";

/** What to send. */
export interface Rejection {
  /** 429, or 503 when the store could not be asked. */
  readonly status: 429 | 503;
  /** To be set on the response; they replace earlier values of the same names. */
  readonly headers: HeaderFields;
  /** A JSON problem document, or plain text for clients that prefer it. */
  readonly body: string;
}

/** How the answer is written. */
export interface RejectionOptions {
  /** The request's `Accept` header. Default: none, which is answered with JSON. */
  accept?: string | undefined;
}

const TYPES = "https://iana.org/assignments/http-problem-types#";

/** The answer to a denied request. */
export function tooManyRequests(decision: Denied, policies: Policies, options: RejectionOptions = {}): Rejection {
  const { retryAfterMs } = decision;
  const status = decision.unavailable ? 503 : 429;
  const detail = detailOf(decision, policies);
  const problem = {
    type: `${TYPES}${status === 503 ? "temporary-reduced-capacity" : "quota-exceeded"}`,
    title: status === 503 ? "Temporary Reduced Capacity" : "Quota Exceeded",
    status,
    detail,
    "violated-policies": violated(decision),
    ...(retryAfterMs === null ? { retryable: false } : {}),
  };
  const asText = prefersText(options.accept);
  return {
    status,
    headers: {
      ...(retryAfterMs === null ? {} : { "Retry-After": String(seconds(retryAfterMs)) }),
      ...rateLimitHeaders(decision, policies),
      "Cache-Control": "no-store",
      "Content-Type": asText ? "text/plain; charset=utf-8" : "application/problem+json",
    },
    body: asText ? `${problem.title}. ${detail}\n` : JSON.stringify(problem),
  };
}

/** The names of the policies that denied, each once. */
function violated(decision: Decision): string[] {
  const parts = decision.parts ?? [decision];
  return [...new Set(parts.filter((part) => !part.allowed).map((part) => part.policy))];
}

/** One sentence for a person. It tells nothing of keys or stores. */
function detailOf({ policy, unavailable, retryAfterMs, limit }: Denied, policies: Policies): string {
  if (unavailable) return "The limit could not be checked. Try again later.";
  if (retryAfterMs === null) return `This request costs more than the limit of ${limit} and can never be allowed.`;
  const binding = listOf(policies).find(({ name }) => name === policy);
  const per = binding ? ` per ${seconds(binding.windowMs)} s` : "";
  return `Limit of ${limit} requests${per} reached.`;
}
