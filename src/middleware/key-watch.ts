/** Notices a `key` that is new with almost every request: then nobody is ever limited, and every key costs memory. */

const REQUESTS = 1000;
const NEW = 900;

/** Tells `warn` once, when more than 900 of 1000 keys in a row were new. */
export function keyWatch(warn: (message: string) => void): (key: string) => void {
  const seen = new Set<string>();
  let count = 0;
  return (key) => {
    if (count < 0) return;
    seen.add(key);
    if (++count < REQUESTS) return;
    const many = seen.size > NEW;
    count = many ? -1 : 0;
    if (many) warn(`the key was new in ${seen.size} of ${REQUESTS} requests: does it hold something of the request?`);
    seen.clear();
  };
}
