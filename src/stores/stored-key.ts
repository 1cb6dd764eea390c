/**
 * Builds the stored key of a bucket, `s1:{tag}policyId`, for stores that outlive the process.
 *
 * - `s1` is the version of the stored state, so a later format never reads this one.
 * - The hash tag in braces depends on the key alone: all policies of one key share a cluster slot or shard, and a caller
 *   can't choose one. Braces in the key are escaped, so the tag ends where the key ends.
 */
import { optionError, SluiceError } from "../base/errors.ts";
import { hmacTag } from "../base/hmac-tag.ts";

/** Options that change how keys are stored. */
export interface KeyOptions {
  /** Keys that are secrets, such as API keys: they are stored as an HMAC tag. `true` means all keys. Default: `false`. */
  secretKeys?: boolean | ((key: string) => boolean);
  /** Secret of the HMAC. Set it when secret keys are guessable, such as email addresses. Default: empty. */
  hmacSecret?: string;
}

/** Maximum length of an escaped key, in UTF-8 bytes. Longer keys are stored as an HMAC tag. */
const MAX_KEY_BYTES = 128;
const encoder = new TextEncoder();

/** Returns the hash tag of a key: the escaped key, or `#` and its HMAC if the key is secret or long. */
export function keyTag(key: string, { secretKeys = false, hmacSecret = "" }: KeyOptions): string {
  const isSecret = typeof secretKeys === "function" ? callSecretKeys(secretKeys, key) : secretKeys;
  if (isSecret || key.length > MAX_KEY_BYTES) return `#${hmacTag(key, hmacSecret)}`;
  const tag = needsEscape.test(key) ? key.replace(escapable, escapeCharacter) : key;
  // A UTF-16 unit has at most three bytes in UTF-8, so short keys need no encoding.
  const isLong = tag.length * 3 > MAX_KEY_BYTES && encoder.encode(tag).length > MAX_KEY_BYTES;
  return isLong ? `#${hmacTag(key, hmacSecret)}` : tag;
}

/** Returns the stored key of a bucket. */
export function storedKey(tag: string, policyId: string): string {
  return `s1:{${tag}}${policyId}`;
}

/** The names of `KeyOptions`. */
export const KEY_OPTIONS: readonly string[] = ["secretKeys", "hmacSecret"];

/** Throws if an option is invalid. */
export function checkKeyOptions({ secretKeys, hmacSecret }: KeyOptions): void {
  if (secretKeys !== undefined && typeof secretKeys !== "boolean" && typeof secretKeys !== "function") {
    throw optionError("invalid-option", "secretKeys", "true, false or a function of the key", secretKeys);
  }
  if (hmacSecret !== undefined && (typeof hmacSecret !== "string" || hmacSecret === "")) {
    // Without the received value, which is a secret.
    throw optionError("invalid-option", "hmacSecret", "a non-empty string");
  }
}

/** An error in `secretKeys` is a caller error: it must not count as a failure of the store. */
function callSecretKeys(secretKeys: (key: string) => boolean, key: string): boolean {
  try {
    return secretKeys(key);
  } catch (cause) {
    const expected = "a function that does not throw";
    throw new SluiceError("invalid-option", `secretKeys must be ${expected}. See the cause of this error.`, {
      option: "secretKeys",
      expected,
      cause,
    });
  }
}

// A leading # marks an HMAC tag. Lone surrogates are escaped because UTF-8 would encode all of them as U+FFFD.
const needsEscape = /[%{}\p{Surrogate}]|^#/u;
const escapable = /[%{}\p{Surrogate}]|^#/gu;

function escapeCharacter(character: string): string {
  return `%${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
