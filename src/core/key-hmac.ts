/** HMAC tags of keys, for places that must not keep or store the keys themselves. */
import { type _HMAC, hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";

type Hmac = _HMAC<ReturnType<typeof sha256.create>>;

/**
 * Returns a function that hashes keys: the first 128 bits of the HMAC-SHA-256 of their UTF-16 units. UTF-8 would encode
 * all lone surrogates alike.
 */
export function keyHmac(secret: Uint8Array): (key: string) => Uint8Array {
  const keyed = hmac.create(sha256, secret) as Hmac;
  let copy: Hmac | undefined;
  return (key) => {
    const bytes = new Uint8Array(key.length * 2);
    for (let i = 0; i < key.length; i++) {
      bytes[2 * i] = key.charCodeAt(i) & 0xff;
      bytes[2 * i + 1] = key.charCodeAt(i) >> 8;
    }
    const digest = new Uint8Array(32);
    // Four times as fast as a new HMAC, which would hash the secret again.
    copy = keyed._cloneInto(copy);
    copy.update(bytes).digestInto(digest);
    return digest.subarray(0, 16);
  };
}
