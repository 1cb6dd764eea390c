/**
 * Builds the stored name of an entry, `i1:{tag}`, for stores that outlive the process.
 *
 * - `i1` is the version of the stored entry, so a later format never reads this one.
 * - The tag is an HMAC of scope and key: no client's text is stored, and the braces of a key can't choose a cluster slot.
 */
import { optionError } from "../base/errors.ts";
import { hmacTag } from "../base/hmac-tag.ts";
import { checkOptions } from "../base/options.ts";
import type { IdempotencyKey } from "./idempotency-store.ts";
import { joinKey } from "./join-key.ts";

/** Options of idempotency stores that outlive the process. */
export interface EntryNameOptions {
  /**
   * Secret of the HMAC in stored names. With it, stored names reveal nothing about guessable keys, and clients can't
   * search for keys that share a cluster slot. All processes need the same. Default: empty.
   */
  hmacSecret?: string;
}

/** Throws if an option is unknown or invalid. `what` names the function that takes them, and `more` its other options. */
export function checkNameOptions(what: string, options: EntryNameOptions, more: readonly string[] = []): void {
  checkOptions(what, options, ["hmacSecret", ...more]);
  const { hmacSecret } = options;
  if (hmacSecret === undefined || (typeof hmacSecret === "string" && hmacSecret !== "")) return;
  // Without the received value, which is a secret.
  throw optionError("invalid-option", "hmacSecret", "a non-empty string");
}

/** Returns the stored name of an entry. */
export function entryName(id: IdempotencyKey, { hmacSecret = "" }: EntryNameOptions): string {
  return `i1:{${hmacTag(joinKey(id), hmacSecret)}}`;
}

/** Returns the stored name of a scope. It never equals that of an entry, whose text starts with a digit. */
export function scopeName(scope: string, { hmacSecret = "" }: EntryNameOptions): string {
  return `i1:{${hmacTag(`s${scope}`, hmacSecret)}}`;
}
