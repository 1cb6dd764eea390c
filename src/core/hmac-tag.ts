/** A short tag of a text that is too long or too secret to store. */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

const encoder = new TextEncoder();

/** The first 128 bits of the HMAC-SHA-256 of the text's UTF-16 units, in hexadecimal. Lone surrogates stay distinct. */
export function hmacTag(text: string, secret: string): string {
  const bytes = new Uint8Array(text.length * 2);
  for (let i = 0; i < text.length; i++) {
    bytes[2 * i] = text.charCodeAt(i) & 0xff;
    bytes[2 * i + 1] = text.charCodeAt(i) >> 8;
  }
  return bytesToHex(hmac(sha256, encoder.encode(secret), bytes).subarray(0, 16));
}
