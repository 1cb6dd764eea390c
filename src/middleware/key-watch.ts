/** Notices a `key` that is new with almost every request: then nobody is ever limited, and every key costs memory. */

const REQUESTS = 1000;
const NEW = 900;

/** Tells `warn` once, when more than 900 of 1000 keys in a row were new. */
export function keyWatch(warn: (message: string) => void): (key: string) => void {
  const seen = new Set<number>();
  let count = 0;
  return (key) => {
    if (count < 0) return;
    seen.add(hashOf(key));
    if (++count < REQUESTS) return;
    const many = seen.size > NEW;
    count = many ? -1 : 0;
    if (many) warn(`the key was new in ${seen.size} of ${REQUESTS} requests: does it hold something of the request?`);
    seen.clear();
  };
}

/** Characters at each end of a key that are hashed. */
const HASHED_CHARS = 128;

/** A 32-bit hash of a key. The keys themselves would take as much memory as clients like. */
function hashOf(key: string): number {
  let hash = key.length;
  for (let i = 0; i < key.length; i++) {
    if (i === HASHED_CHARS) i = Math.max(i, key.length - HASHED_CHARS);
    hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  }
  return hash;
}
