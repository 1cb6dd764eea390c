/** Creates the random ids of requests that claim a key. */
import { bytesToHex } from "@noble/hashes/utils.js";

/** 128 bits. */
const OWNER_BYTES = 16;
/** Random bytes for many owners: one call of the generator costs as much as the rest of a replay. */
const pool = /* @__PURE__ */ new Uint8Array(64 * OWNER_BYTES);
let used: number = pool.length;

/** Returns an id that no other request has. */
export function newOwner(): string {
  if (used === pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  const owner = bytesToHex(pool.subarray(used, used + OWNER_BYTES));
  used += OWNER_BYTES;
  return owner;
}
