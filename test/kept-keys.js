/**
 * Measures how much memory tables keep for keys cut out of long headers: `node --expose-gc test/kept-keys.js <table>
 * <cut>` prints the bytes of heap and buffers per key. Runs on the build, in its own process to measure nothing else.
 */
import { createLimiter, memoryStore } from "sluice";
import { kvRateLimiter } from "sluice/cloudflare";
import { createGuard } from "sluice/ws";

const KEY_LENGTH = 40;

/**
 * Ways to cut a key of 40 characters out of a header of 12 kB.
 * @type {Record<string, (header: string) => string | undefined>}
 */
const cuts = {
  slice: (header) => header.slice(101, 101 + KEY_LENGTH),
  regexp: (header) => /id=([^;]+)/.exec(header)?.[1],
  split: (header) => header.split(";")[1]?.split("=")[1],
  template: (header) => `id:${header.slice(104, 101 + KEY_LENGTH)}`,
};

/**
 * A key cut from a new header, as in a server.
 * @param {number} i
 * @param {(header: string) => string | undefined} cut
 * @returns {string}
 */
function keyOf(i, cut) {
  const header = `${"a".repeat(97)};id=${String(i).padStart(KEY_LENGTH, "0")};${"b".repeat(12_000)}`;
  // A header that was read from a socket is one flat string.
  return cut(Buffer.from(header, "latin1").toString("latin1")) ?? "";
}

/**
 * A remote store that denies every call for an hour.
 * @returns {import("sluice").Store}
 */
function denyingStore() {
  const [nextAfterMs, resetAfterMs, retryAfterMs] = [3_600_000, 3_600_000, 3_600_000];
  /** @param {import("sluice").Charge} charge @returns {import("sluice").Decision} */
  const deny = ({ policy: { name: policy, limit } }) => {
    return { allowed: false, policy, limit, remaining: 0, nextAfterMs, resetAfterMs, retryAfterMs };
  };
  return {
    consistency: "exact",
    apply: async (groups) => groups.map((group) => group.map(deny)),
    inspect: () => Promise.reject(new Error("not used")),
    dispose: async () => {},
  };
}

const remote = () => createLimiter({ policy: { capacity: 10, tokensPerSecond: "10/1h" }, store: denyingStore() });

/**
 * The number of keys to store in a table, a function that stores one, and the object that must stay alive.
 * @type {Record<string, () => { count: number, keep: (key: string) => unknown, owner: object }>}
 */
const tables = {
  memory: () => {
    const limiter = createLimiter({ policy: { capacity: 10, tokensPerSecond: "10/1h" }, store: memoryStore() });
    return { count: 100_000, keep: (key) => limiter.consumeSync(key), owner: limiter };
  },
  denials: () => {
    const limiter = remote();
    return { count: 10_000, keep: (key) => limiter.consume(key), owner: limiter };
  },
  refunds: () => {
    const limiter = remote();
    return { count: 1000, keep: (key) => limiter.refund(key, 1), owner: limiter };
  },
  kv: () => {
    const kv = { get: async () => null, put: async () => {}, delete: async () => {} };
    const limiter = kvRateLimiter(kv, { algorithm: "fixed-window", limit: 10, windowMs: "1h" });
    return { count: 10_000, keep: (key) => limiter.consume(key), owner: limiter };
  },
  names: () => {
    const store = memoryStore();
    let created = 0;
    const keep = async () => {
      const name = `tenant-${created++}`;
      const limiter = createLimiter({ policy: { capacity: 10, tokensPerSecond: "10/1h", name }, store });
      limiter.consumeSync("k");
      await limiter.reset("k");
      await limiter.dispose();
    };
    return { count: 20_000, keep, owner: store };
  },
  connections: () => {
    const guard = createGuard({ maxOpenPerUser: 2 });
    const request = { peer: "192.0.2.1", headers: {} };
    return { count: 10_000, keep: (userId) => guard.admit(request, { userId }), owner: guard };
  },
};

function bytesInUse() {
  // One collection may leave garbage, such as old tables of a growing Map. The minimum is the retained memory.
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 5; i++) {
    globalThis.gc?.();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    least = Math.min(least, heapUsed + arrayBuffers);
  }
  return least;
}

const [, , table = "", cutName = ""] = process.argv;
const [make, cut] = [tables[table], cuts[cutName]];
if (!make || !cut)
  throw new Error(`Usage: kept-keys.js <${Object.keys(tables).join("|")}> <${Object.keys(cuts).join("|")}>`);
const { count, keep, owner } = make();
// Warm up: compiled code and buffers that grow once are not measured.
for (let i = 0; i < 100; i++) await keep(keyOf(i, cut));
const before = bytesInUse();
for (let i = 100; i < count; i++) await keep(keyOf(i, cut));
const bytes = Math.round((bytesInUse() - before) / (count - 100));
console.log(JSON.stringify({ bytes, isAlive: typeof owner === "object" }));
