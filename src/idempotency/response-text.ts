/**
 * Encodes a response as text, because every client and every store passes text unchanged, and not all pass bytes.
 *
 *     1[201,{"content-type":"application/json"},"t"]
 *     {"id":42}
 *
 * The first character is the version. JSON contains no line break, so the first one ends the head. Kinds of body: `t`, UTF-8
 * text as it is; `b`, other bytes as base64; `n`, not stored. A body of JSON or text takes no more space than its bytes,
 * another body a third more; base64 for all would cost a third always, and one character per byte up to half.
 */
import { SluiceError } from "../base/errors.ts";
import type { StoredResponse } from "./idempotency-store.ts";

const VERSION = "1";

const encoder = new TextEncoder();
/** Throws on bytes that are not UTF-8, and keeps a byte order mark: every text that it returns encodes to the same bytes. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

type Head = [status: number, headers: StoredResponse["headers"], kind: "t" | "b" | "n"];

/** Encodes a valid response. */
export function encodeResponse({ status, headers, body }: StoredResponse): string {
  const head = (kind: Head[2]): string => `${VERSION}${JSON.stringify([status, headers, kind])}\n`;
  if (body === null) return head("n");
  const text = decodeText(body);
  return text === undefined ? head("b") + toBase64(body) : head("t") + text;
}

/** Decodes a response. Throws `foreign-value` if the text is not one of this version. */
export function decodeResponse(text: string): StoredResponse {
  const end = text.indexOf("\n");
  try {
    if (!text.startsWith(VERSION) || end < 0) throw new SyntaxError("The stored response has another format.");
    const [status, headers, kind] = JSON.parse(text.slice(VERSION.length, end)) as Head;
    return { status, headers, body: decodeBody(kind, text.slice(end + 1)) };
  } catch (cause) {
    throw foreignValue(cause);
  }
}

/** The error for a stored value that no store of this version has written. */
export function foreignValue(cause?: unknown): SluiceError {
  return new SluiceError(
    "foreign-value",
    "The entry of an idempotency key contains a value that sluice has not written, or that is damaged.",
    { option: "store", expected: "a value that an idempotency store has written", cause },
  );
}

function decodeBody(kind: Head[2], text: string): Uint8Array | null {
  if (kind === "n") return null;
  if (kind === "t") return encoder.encode(text);
  if (kind !== "b") throw new SyntaxError("The stored response has an unknown kind of body.");
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function decodeText(body: Uint8Array): string | undefined {
  try {
    return decoder.decode(body);
  } catch {
    return undefined;
  }
}

/** Characters per call of `String.fromCharCode`, whose number of arguments is limited. */
const CHUNK = 8192;

function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < bytes.length; i += CHUNK) binary += String.fromCharCode(...bytes.subarray(i, i + CHUNK));
  return btoa(binary);
}
