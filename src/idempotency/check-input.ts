/** Validates the input of every idempotency store before anything is written. */
import { optionError } from "../base/errors.ts";
import { checkWhole } from "../base/options.ts";
import type { IdempotencyClaim, IdempotencyKey, StoredResponse } from "./idempotency-store.ts";

/** Maximum length of a body. A row of a Durable Object holds 2 MB, and a binary body takes a third more as base64. */
export const MAX_BODY_BYTES: number = 2 ** 20;
/** Maximum length of all header names and values. */
const MAX_HEADER_CHARS = 2 ** 16;
/** Instants stay within the exact integers. */
const MAX_DURATION_MS = 2 ** 51;

/** Owners and fingerprints, which are stored between spaces. */
const ID = /^[\w.~+/=-]{1,128}$/;
/** A field name of RFC 9110. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
/** Characters that would end a header line. */
const LINE_END = /[\0\r\n]/;

/** Throws unless a claim is valid. */
export function checkClaim(claim: IdempotencyClaim): void {
  checkKey(claim);
  checkId("fingerprint", claim.fingerprint);
  checkId("owner", claim.owner);
  checkTimes(claim);
}

/** Throws unless a claim is kept for at least as long as its lease: otherwise a second request could start during it. */
export function checkTimes({ leaseMs, ttlMs }: Pick<IdempotencyClaim, "leaseMs" | "ttlMs">): void {
  checkDuration("ttlMs", ttlMs);
  checkDuration("leaseMs", leaseMs);
  if (ttlMs < leaseMs) throw optionError("invalid-option", "ttlMs", `at least leaseMs (${leaseMs})`, ttlMs);
}

/** Throws unless scope and key are strings that are not empty. Their text is left out of the message. */
export function checkKey(id: IdempotencyKey): void {
  for (const name of ["scope", "key"] as const) {
    const text: unknown = (id as IdempotencyKey | null | undefined)?.[name];
    if (typeof text !== "string" || text === "") throw optionError("invalid-key", name, "a non-empty string", text);
  }
}

/** Throws unless a text can be an owner or a fingerprint. */
export function checkId(option: "owner" | "fingerprint", id: unknown): void {
  if (typeof id === "string" && ID.test(id)) return;
  throw optionError("invalid-option", option, "1 to 128 letters, digits or characters of _ . ~ + / = -");
}

/** Returns a whole number of milliseconds >= 1, or throws. */
export function checkDuration(option: "leaseMs" | "ttlMs", ms: unknown): number {
  return checkWhole(option, ms, 1, MAX_DURATION_MS);
}

/** Throws unless a response can be stored and sent again. Its text is left out of the messages. */
export function checkResponse(response: StoredResponse): void {
  const { status, headers, body } = (response ?? {}) as Partial<StoredResponse>;
  if (!(Number.isInteger(status) && (status as number) >= 200 && (status as number) <= 599)) {
    throw optionError("invalid-option", "response.status", "a whole number from 200 to 599", status);
  }
  if (typeof headers !== "object" || headers === null || Array.isArray(headers)) {
    throw optionError("invalid-option", "response.headers", "an object of header values by name");
  }
  let chars = 0;
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name))
      throw optionError("invalid-option", "response.headers", "valid names of header fields");
    for (const line of Array.isArray(value) ? value : [value]) {
      if (typeof line !== "string" || LINE_END.test(line)) {
        const expected = "strings, or lists of strings, without line breaks and NUL";
        throw optionError("invalid-option", "response.headers", expected);
      }
      chars += name.length + line.length;
    }
  }
  if (chars > MAX_HEADER_CHARS) {
    throw optionError("out-of-range", "response.headers", `at most ${MAX_HEADER_CHARS} characters`, chars);
  }
  if (body === null) return;
  if (!(body instanceof Uint8Array)) throw optionError("invalid-option", "response.body", "a Uint8Array or null");
  if (body.length > MAX_BODY_BYTES) {
    throw optionError("out-of-range", "response.body", `at most ${MAX_BODY_BYTES} bytes`, body.length);
  }
}
