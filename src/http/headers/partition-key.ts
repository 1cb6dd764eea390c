/** Derives pseudonyms of keys for the `pk` parameter of RateLimit fields. */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { optionError } from "../../base/errors.ts";

/**
 * Returns a function for `headers: { partitionKey: partitionKey(secret) }`. It hashes a key to 96 bits of HMAC-SHA-256
 * in base64. Without the secret, trying all IPv4 addresses does not reveal the one that a hash belongs to.
 */
export function partitionKey(secret: string): (key: string) => string {
  if (typeof secret !== "string" || secret === "") {
    throw optionError("invalid-option", "secret", "a non-empty string");
  }
  const encoder = new TextEncoder();
  const hmacKey = encoder.encode(secret);
  return (key) => btoa(String.fromCharCode(...hmac(sha256, hmacKey, encoder.encode(key)).subarray(0, 12)));
}
