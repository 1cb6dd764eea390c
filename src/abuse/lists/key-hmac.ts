/** HMAC tags of keys, for lists that must not keep the keys themselves. */
import { type _HMAC, hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { utf16Bytes } from "../../base/utf16-bytes.ts";

type Hmac = _HMAC<ReturnType<typeof sha256.create>>;

/** Returns a function that hashes keys to the first 128 bits of their HMAC-SHA-256. */
export function keyHmac(secret: Uint8Array): (key: string) => Uint8Array {
  const keyed = hmac.create(sha256, secret) as Hmac;
  let copy: Hmac | undefined;
  return (key) => {
    const digest = new Uint8Array(32);
    // Four times as fast as a new HMAC, which would hash the secret again.
    copy = keyed._cloneInto(copy);
    copy.update(utf16Bytes(key)).digestInto(digest);
    return digest.subarray(0, 16);
  };
}
