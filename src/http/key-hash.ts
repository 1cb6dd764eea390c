/** Hashes keys for statistics, which must not retain a key: it may be long, or a slice of a whole header. */

/** Characters hashed at each end. Hashing a long key must not take longer than the decision. */
const MAX_CHARS = 64;

/** A 32-bit hash (FNV-1a) of the length and both ends of a key. Collisions are counted as one key. */
export function keyHash(key: string): number {
  let hash = 0x811c9dc5 ^ key.length;
  const middle = Math.min(key.length, MAX_CHARS);
  for (let i = 0; i < middle; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  for (let i = Math.max(middle, key.length - MAX_CHARS); i < key.length; i++) {
    hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  }
  return hash;
}
