/** Hashes what makes two payloads equal. */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import type { MaybePromise } from "../../base/maybe-promise.ts";

const encoder = new TextEncoder();
/** Longer payloads are hashed by WebCrypto, which does not block the event loop but takes longer to start. */
const MAX_SYNC_BYTES = 16_384;

/** The SHA-256 of texts and a body, in hexadecimal. The length of each text precedes it, so no two lists give the same bytes. */
export function fingerprintOf(texts: readonly string[], body: Uint8Array): MaybePromise<string> {
  const head = encoder.encode(texts.map((text) => `${text.length}:${text}`).join(""));
  const bytes = new Uint8Array(head.length + body.length);
  bytes.set(head);
  bytes.set(body, head.length);
  if (bytes.length <= MAX_SYNC_BYTES) return bytesToHex(sha256(bytes));
  return crypto.subtle.digest("SHA-256", bytes).then((hash) => bytesToHex(new Uint8Array(hash)));
}
