/** Values as HTTP structured fields (RFC 9651) need them. */
import { optionError } from "../../base/errors.ts";

/** A structured-field Integer has at most 15 digits. */
export function clampInteger(value: number): number {
  return Math.min(value, 999_999_999_999_999);
}

/** Whole seconds for a header, rounded up and at least 1, so a client that waits is never too early. */
export function toSeconds(ms: number): number {
  return clampInteger(Math.max(1, Math.ceil(ms / 1000)));
}

const MAX_CACHED_STRINGS = 1000;
/** Policy names and units by their structured-field String. An application has few, and every response repeats them. */
const cachedStrings = new Map<string, string>();

/** A structured-field String. Characters that it can't hold become `?`: a third-party limiter may use any name. */
export function toSfString(value: string): string {
  let found = cachedStrings.get(value);
  if (found === undefined) {
    found = `"${value.replace(/[^ -~]/g, "?").replace(/["\\]/g, "\\$&")}"`;
    if (cachedStrings.size >= MAX_CACHED_STRINGS) cachedStrings.clear();
    cachedStrings.set(value, found);
  }
  return found;
}

/** Groups of four, the last one padded. Some parsers reject other lengths, and with them the whole field. */
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The base64 of a structured-field Byte Sequence, without its colons. */
export function checkBase64(value: unknown): string {
  if (typeof value === "string" && value !== "" && BASE64.test(value)) return value;
  // The value stays out of the message: it may be the key itself.
  const expected = "a function that returns padded base64, such as partitionKey(secret)";
  throw optionError("invalid-option", "partitionKey", expected);
}
