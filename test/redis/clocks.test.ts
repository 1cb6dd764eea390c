/** Clocks that differ between processes, and a server clock that steps. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { createLimiter } from "sluice";
import { redisStore } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { startShiftedRedis } from "../servers/clock-shim.js";
import { withRedis, withShiftedRedis } from "../servers/needs.ts";
import { startRedis } from "../servers/redis-server.js";

const storeOnly = { onStoreError: "throw", localDenialMs: 0, deadlineMs: 20_000 } as const;
const HOUR = 3_600_000;

const CAPACITY = 100;
const PER_SECOND = 50;

/**
 * A process whose clock is off: it consumes as often as it can for a while and prints how much was admitted. It also
 * prints the server's time before and after its first call, at the end, and before its last denied call.
 */
const consumer = (offsetMs: number, port: number) => `
  const real = Date.now;
  Date.now = () => real() + ${offsetMs};
  const { Redis } = await import("ioredis");
  const { redisRateLimiter } = await import("sluice/redis");
  const redis = new Redis(${port});
  const policy = { capacity: ${CAPACITY}, tokensPerSecond: ${PER_SECOND} };
  const limiter = redisRateLimiter(redis, policy, { localDenialMs: 0, onStoreError: "throw", deadlineMs: "20s" });
  const now = async () => { const [s, us] = await redis.time(); return s * 1000 + us / 1000; };
  // Both start together, or the bucket would refill while one is still starting.
  await redis.incr("ready");
  while ((await redis.get("ready")) !== "2");
  const before = await now();
  // Enough that a pause of the machine does not fill the bucket.
  let admitted = (await limiter.consume("k", ${CAPACITY / 2})).allowed ? ${CAPACITY / 2} : 0;
  const after = await now();
  let [last, denied] = [after, after];
  while (last - before < 1500) {
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.consume("k")));
    if (decisions.at(-1).allowed === false) denied = last;
    admitted += decisions.filter(({ allowed }) => allowed).length;
    last = await now();
  }
  redis.disconnect();
  console.log(JSON.stringify({ admitted, before, after, denied, last }));
`;

describe("processes whose clocks are 500 ms apart", withRedis, () => {
  it("admit together exactly as much as one process would", async () => {
    const server = await startRedis();
    try {
      const runs = await Promise.all(
        [-250, 250].map(async (offset) => {
          const args = ["--input-type=module", "-e", consumer(offset, server.port)];
          // `sluice` is the built package.
          const { stdout } = await promisify(execFile)("node", args, { cwd: new URL("../..", import.meta.url) });
          return JSON.parse(stdout) as Record<"admitted" | "before" | "after" | "denied" | "last", number>;
        }),
      );
      const admitted = runs.reduce((sum, run) => sum + run.admitted, 0);
      const most = Math.max(...runs.map(({ last }) => last)) - Math.min(...runs.map(({ before }) => before));
      expect(admitted).toBeLessThanOrEqual(Math.floor(CAPACITY + (PER_SECOND * most) / 1000));
      // At a denial the bucket is empty: all tokens refilled until then were consumed.
      const least = Math.max(...runs.map(({ denied }) => denied)) - Math.min(...runs.map(({ after }) => after));
      expect(least, "time of the last denial").toBeGreaterThan(1000);
      expect(admitted).toBeGreaterThanOrEqual(Math.floor(CAPACITY + (PER_SECOND * least) / 1000 - 1));
    } finally {
      await server.stop();
    }
  });
});

// The shim is a C library. Without a compiler, only expiry.test.ts covers states dated in the future.
describe("a server whose clock steps", withShiftedRedis(), () => {
  it.each(ALGORITHMS)(
    "%s: creates no tokens and denies no longer than one refill, an hour back and forth",
    async (algorithm) => {
      const server = await startShiftedRedis();
      const redis = new Redis(server.port);
      try {
        const spanMs = 400;
        const longest = algorithm === "sliding-window" ? 2 * spanMs : spanMs;
        const limiter = createLimiter({
          policy: policyOf(algorithm, 4, spanMs, "c"),
          store: redisStore(redis),
          ...storeOnly,
        });
        const drain = async () => {
          let admitted = 0;
          while ((await limiter.consume("k")).allowed) admitted++;
          return admitted;
        };
        server.shift(HOUR);
        expect(await drain()).toBeGreaterThanOrEqual(4);
        for (const back of [0, -HOUR, -24 * HOUR]) {
          server.shift(back);
          const denied = await limiter.consume("k", 4);
          expect(denied.allowed, `${back} ms: the step refunds nothing`).toBe(false);
          expect(denied.retryAfterMs).toBeLessThanOrEqual(longest);
          await new Promise((resolve) => setTimeout(resolve, denied.resetAfterMs));
          expect((await limiter.consume("k", 4)).allowed, `${back} ms: one refill later`).toBe(true);
        }
        // A forward step counts as elapsed time, once. Both calls are decided at the same time.
        server.shift(0);
        const twice = await Promise.all([limiter.consume("k", 4), limiter.consume("k", 4)]);
        expect(twice.map(({ allowed }) => allowed)).toEqual([true, false]);
      } finally {
        redis.disconnect();
        await server.stop();
      }
    },
  );
});
