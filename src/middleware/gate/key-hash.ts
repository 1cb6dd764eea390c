/** A hash of a key, for statistics that must not keep the key: it may be long, or retain the header it was cut from. */

/** Characters that are hashed from each end. A long key must not cost more than the decision. */
const MAX_CHARS = 64;

/** A 32-bit hash (FNV-1a) of the length and both ends of a key. Keys that collide are taken for one. */
export function keyHash(key: string): number {
  let hash = 0x811c9dc5 ^ key.length;
  const middle = Math.min(key.length, MAX_CHARS);
  for (let i = 0; i < middle; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  for (let i = Math.max(middle, key.length - MAX_CHARS); i < key.length; i++) {
    hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  }
  return hash;
}
