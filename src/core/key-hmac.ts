/** HMAC tags of keys, for places that must not keep or store the keys themselves. */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";

/** The first 128 bits of the HMAC-SHA-256 of a key's UTF-16 units. UTF-8 would encode all lone surrogates alike. */
export function keyHmac(secret: Uint8Array, key: string): Uint8Array {
  const bytes = new Uint8Array(key.length * 2);
  for (let i = 0; i < key.length; i++) {
    bytes[2 * i] = key.charCodeAt(i) & 0xff;
    bytes[2 * i + 1] = key.charCodeAt(i) >> 8;
  }
  return hmac(sha256, secret, bytes).subarray(0, 16);
}
