/** A name for a client's share of a quota that tells nobody who the client is. */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { optionError } from "../../core/errors.ts";

/**
 * Makes `pk` of the RateLimit fields: `headers: { partitionKey: partitionKey(secret) }`. It is 96 bits of HMAC-SHA-256
 * in base64: without the secret nobody can try all addresses of IPv4 to find the one that it belongs to.
 */
export function partitionKey(secret: string): (key: string) => string {
  if (typeof secret !== "string" || secret === "") {
    throw optionError("invalid-option", "secret", "a text that is not empty");
  }
  const encoder = new TextEncoder();
  const hmacKey = encoder.encode(secret);
  return (key) => btoa(String.fromCharCode(...hmac(sha256, hmacKey, encoder.encode(key)).subarray(0, 12)));
}
