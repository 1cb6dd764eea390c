/**
 * Assigns keys to shards by jump consistent hashing (Lamping and Veach, 2014). From 128 to 256 shards only half of the
 * keys move, all of them to new shards; a hash modulo the number of shards would move nearly every key.
 */

/** Returns the shard of a key, from 0 to `shards - 1`. Changing this function would move buckets. */
export function jumpHash(key: string, shards: number): number {
  let state = hash(key);
  let [shard, next] = [0, 0];
  while (next < shards) {
    shard = next;
    // Mulberry32, seeded by the key: a pseudo-random number above 0, up to 1.
    state = (state + 0x6d2b79f5) | 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    next = Math.floor((shard + 1) / ((((word ^ (word >>> 14)) >>> 0) + 1) / 2 ** 32));
  }
  return shard;
}

/** FNV-1a over the UTF-16 units, with the finaliser of MurmurHash3, which gives similar keys unrelated hashes. */
function hash(key: string): number {
  let hash = 0x811c9dc5 | 0;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}
