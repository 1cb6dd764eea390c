/** The responses of `idempotent` itself, as problem documents (RFC 9457). */
import type { ResponseData } from "../../http/rejection.ts";
import type { StoredResponse } from "../../idempotency/idempotency-store.ts";

const PROBLEMS = {
  "key-missing": [400, "Bad Request", "This request requires the Idempotency-Key header."],
  "key-unscoped": [400, "Bad Request", "The Idempotency-Key header requires authentication."],
  "key-malformed": [400, "Bad Request", "The Idempotency-Key header must be one key of 1 to 255 printable characters."],
  "request-in-progress": [409, "Conflict", "A request with this Idempotency-Key is still in progress."],
  "response-not-stored": [
    409,
    "Conflict",
    "A request with this Idempotency-Key was processed, but its response was not stored.",
  ],
  "body-too-long": [413, "Content Too Large", "The body is too long for a request with an Idempotency-Key."],
  "key-reused": [422, "Unprocessable Content", "This Idempotency-Key was used with another request."],
  "store-unavailable": [503, "Service Unavailable", "The Idempotency-Key could not be checked. Try again later."],
} as const;

/** A stable name of a problem, its member `code`. */
export type ProblemCode = keyof typeof PROBLEMS;

/** The response to a request that is not handled. `docs` is the type of the problem. */
export function problem(code: ProblemCode, docs: string, retryAfterS?: number, members: object = {}): ResponseData {
  const [status, title, detail] = PROBLEMS[code];
  return {
    status,
    headers: {
      ...(retryAfterS === undefined ? {} : { "Retry-After": String(retryAfterS) }),
      "Cache-Control": "no-store",
      "Content-Type": "application/problem+json",
    },
    body: JSON.stringify({ type: docs, title, status, detail, code, ...members }),
  };
}

/** The response to a retry whose response was not stored. */
export function notStored({ status, headers }: StoredResponse, docs: string): ResponseData {
  const { location } = headers;
  const members = { "original-status": status, ...(location === undefined ? {} : { location }) };
  return problem("response-not-stored", docs, undefined, members);
}
