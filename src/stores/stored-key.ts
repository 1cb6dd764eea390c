/**
 * How a bucket is called in a store that outlives the process: `s1:{key}policy`. The version comes first, so that a later form of state never
 * meets this one. The hash tag holds the key and nothing else: all policies of one key share a cluster slot, and no
 * caller can choose one. Braces are escaped, so that the tag ends where the key does.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { optionError } from "../core/errors.ts";

/** What the names of buckets depend on. */
export interface KeyOptions {
  /** Which keys are secrets, such as API keys: they are stored as a tag, never as they are. `true`: all. Default: none. */
  secretKeys?: boolean | ((key: string) => boolean);
  /** The key of the HMAC that makes tags. Give one when secrets can be guessed, such as addresses of mail. Default: empty. */
  hmacSecret?: string;
}

/** Keys that are longer, in bytes as they are stored, are stored as a tag. */
const MAX_KEY_BYTES = 128;
const encoder = new TextEncoder();

/** The part of the stored key that stands between the braces. */
export function tagOf(key: string, { secretKeys = false, hmacSecret = "" }: KeyOptions): string {
  const secret = typeof secretKeys === "function" ? isSecret(secretKeys, key) : secretKeys;
  if (secret || key.length > MAX_KEY_BYTES) return `#${hashOf(key, hmacSecret)}`;
  const tag = needsEscape.test(key) ? key.replace(escapable, escaped) : key;
  // No character has more than three bytes, so that short keys need no counting.
  const long = tag.length * 3 > MAX_KEY_BYTES && encoder.encode(tag).length > MAX_KEY_BYTES;
  return long ? `#${hashOf(key, hmacSecret)}` : tag;
}

/** The names of these options. */
export const KEY_OPTIONS: readonly string[] = ["secretKeys", "hmacSecret"];

/** Refuses what they can't be. */
export function checkKeyOptions({ secretKeys, hmacSecret }: KeyOptions): void {
  if (secretKeys !== undefined && typeof secretKeys !== "boolean" && typeof secretKeys !== "function") {
    throw optionError("invalid-option", "secretKeys", "true, false or a function of the key", secretKeys);
  }
  if (hmacSecret !== undefined && (typeof hmacSecret !== "string" || hmacSecret === "")) {
    // What is wrong with a secret is not shown.
    throw optionError("invalid-option", "hmacSecret", "a string that is not empty");
  }
}

/** A function that throws is the fault of neither the store nor other callers. */
function isSecret(secretKeys: (key: string) => boolean, key: string): boolean {
  try {
    return secretKeys(key);
  } catch (cause) {
    throw Object.assign(optionError("invalid-option", "secretKeys", "a function that never throws"), { cause });
  }
}

/** The whole of it. */
export function storedKey(tag: string, bucket: string): string {
  return `s1:{${tag}}${bucket}`;
}

// A leading # belongs to tags. A lone surrogate is no character: all of them would be stored as the same one.
const needsEscape = /[%{}\p{Surrogate}]|^#/u;
const escapable = /[%{}\p{Surrogate}]|^#/gu;

function escaped(character: string): string {
  return `%${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** 128 bits of HMAC-SHA-256 over the key's UTF-16 units. */
function hashOf(key: string, secret: string): string {
  const units = new Uint8Array(key.length * 2);
  for (let i = 0; i < key.length; i++) {
    units[2 * i] = key.charCodeAt(i) & 0xff;
    units[2 * i + 1] = key.charCodeAt(i) >> 8;
  }
  return bytesToHex(hmac(sha256, encoder.encode(secret), units).subarray(0, 16));
}
