/** A short tag of a text that is too long or too secret to store. */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { utf16Bytes } from "./utf16-bytes.ts";

const encoder = new TextEncoder();

/** Returns a function like `hmacTag` for one secret. It hashes the secret once, which is half of the work. */
export function hmacTagger(secret: string): (text: string) => string {
  const keyed = hmac.create(sha256, encoder.encode(secret));
  return (text) => bytesToHex(keyed.clone().update(utf16Bytes(text)).digest().subarray(0, 16));
}

/** The first 128 bits of the HMAC-SHA-256 of the text's UTF-16 units, in hexadecimal. Lone surrogates stay distinct. */
export function hmacTag(text: string, secret: string): string {
  return bytesToHex(hmac(sha256, encoder.encode(secret), utf16Bytes(text)).subarray(0, 16));
}
