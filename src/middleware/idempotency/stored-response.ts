/** What is stored of a response, and what a replay of it contains. */
import type { ResponseData } from "../../http/rejection.ts";
import type { StoredResponse } from "../../idempotency/idempotency-store.ts";
import type { CapturedResponse } from "../gate/response-capture.ts";

/** The headers that are stored unless an option lists others. */
export const DEFAULT_STORED_HEADERS: readonly string[] = [
  "content-type",
  "content-language",
  "content-encoding",
  "location",
  "link",
  "etag",
  "last-modified",
  "cache-control",
];

/** Cookies, hop-by-hop, length, RateLimit and CORS headers, which are computed for each response. */
const NEVER_STORED =
  /^(?:set-cookie2?|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|date|retry-after|(?:x-)?ratelimit.*|access-control-.*|idempotent-replayed)$/;

/** Whether a header, by its lower-case name, must not be stored. */
export function isNeverStored(name: string): boolean {
  return NEVER_STORED.test(name);
}

/** Statuses that mean "try again". 499 is that of a request that was dropped before its handler ran. */
const NOT_STORED = [401, 403, 408, 425, 429, 499, 502, 503, 504];

/** Whether a status is stored: also 500, because the effect may have happened. */
export function isStoredByDefault(status: number): boolean {
  return !NOT_STORED.includes(status);
}

/** Whether a status can be stored at all. */
export function isStorable(status: number): boolean {
  return status >= 200 && status <= 599;
}

/** Why a body is not stored. */
export type MissingBody = "too-long" | "stream" | "failed" | "aborted";

/** The response to store. Its body is `null` if it is missing, with the reason. */
export function storedResponse(
  { status = 500, headers, body, missing }: CapturedResponse,
  names: readonly string[],
): { readonly response: StoredResponse; readonly missing: MissingBody | undefined } {
  const stored: Record<string, string | string[]> = {};
  for (const name of names) {
    const value = headers[name];
    if (value !== undefined) stored[name] = value;
  }
  const reason = missing ?? (isEventStream(headers["content-type"]) ? "stream" : undefined);
  return {
    response: { status, headers: stored, body: reason === undefined && body ? body : null },
    missing: reason,
  };
}

function isEventStream(type: string | string[] | undefined): boolean {
  return /^text\/event-stream\b/i.test(String(type ?? ""));
}

const WITHOUT_BODY = [204, 205, 304];

/** The stored response as it is sent again. */
export function replayOf({ status, headers, body }: StoredResponse): ResponseData {
  // Servers label an empty list of bytes as binary if it has no type.
  const isEmpty = body?.length === 0 && headers["content-type"] === undefined;
  return {
    status,
    headers: { ...headers, "Idempotent-Replayed": "true" },
    body: isEmpty || WITHOUT_BODY.includes(status) ? null : body,
  };
}
