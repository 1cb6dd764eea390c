/** Clocks that disagree: of the processes that ask, and of the server before and after a step. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { createLimiter } from "sluice";
import { redisStore } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { hasCompiler, startShiftedRedis } from "../servers/clock-shim.js";
import { startRedis } from "../servers/redis-server.js";

const bare = { onStoreError: "throw", localDenialMs: 0, deadlineMs: 20_000 } as const;
const HOUR = 3_600_000;

const CAPACITY = 100;
const PER_SECOND = 50;

/**
 * What a process does whose clock is off: spends as often as it can for a while, and tells how much it got. Of the
 * server's times it tells before and after its first charge, at the end, and before a charge that was denied.
 */
const spender = (offsetMs: number, port: number) => `
  const real = Date.now;
  Date.now = () => real() + ${offsetMs};
  const { Redis } = await import("ioredis");
  const { redisRateLimiter } = await import("sluice/redis");
  const redis = new Redis(${port});
  const policy = { capacity: ${CAPACITY}, tokensPerSecond: ${PER_SECOND} };
  const limiter = redisRateLimiter(redis, policy, { localDenialMs: 0, onStoreError: "throw", deadlineMs: "20s" });
  const now = async () => { const [s, us] = await redis.time(); return s * 1000 + us / 1000; };
  // Both begin together, or the bucket would fill while one of them is not there yet.
  await redis.incr("ready");
  while ((await redis.get("ready")) !== "2");
  const before = await now();
  // So much that a pause of the machine does not fill the bucket.
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

describe("processes whose clocks are 500 ms apart", () => {
  it("admit together no more than one would, and no less", async () => {
    const server = await startRedis();
    try {
      const runs = await Promise.all(
        [-250, 250].map(async (offset) => {
          const args = ["--input-type=module", "-e", spender(offset, server.port)];
          // The package by its name is the one that was built.
          const { stdout } = await promisify(execFile)("node", args, { cwd: new URL("../..", import.meta.url) });
          return JSON.parse(stdout) as Record<"admitted" | "before" | "after" | "denied" | "last", number>;
        }),
      );
      const admitted = runs.reduce((sum, run) => sum + run.admitted, 0);
      const most = Math.max(...runs.map(({ last }) => last)) - Math.min(...runs.map(({ before }) => before));
      expect(admitted).toBeLessThanOrEqual(Math.floor(CAPACITY + (PER_SECOND * most) / 1000));
      // Who was denied had nothing left: all that came in until then was spent.
      const least = Math.max(...runs.map(({ denied }) => denied)) - Math.min(...runs.map(({ after }) => after));
      expect(least, "somebody was denied late").toBeGreaterThan(1000);
      expect(admitted).toBeGreaterThanOrEqual(Math.floor(CAPACITY + (PER_SECOND * least) / 1000 - 1));
    } finally {
      await server.stop();
    }
  });
});

// The shim is a library in C. Without a compiler, store.test.ts writes states from the future instead.
describe.skipIf(!hasCompiler())("a server whose clock steps", () => {
  it.each(ALGORITHMS)(
    "%s: an hour back and forth mints nothing and locks nobody out beyond one refill",
    async (algorithm) => {
      const server = await startShiftedRedis();
      const redis = new Redis(server.port);
      try {
        const spanMs = 400;
        const longest = algorithm === "sliding-window" ? 2 * spanMs : spanMs;
        const limiter = createLimiter({
          policy: policyOf(algorithm, 4, spanMs, "c"),
          store: redisStore(redis),
          ...bare,
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
          expect(denied.allowed, `${back} ms: nothing is given back by the step`).toBe(false);
          expect(denied.retryAfterMs).toBeLessThanOrEqual(longest);
          await new Promise((resolve) => setTimeout(resolve, denied.resetAfterMs));
          expect((await limiter.consume("k", 4)).allowed, `${back} ms: one refill later`).toBe(true);
        }
        // Forward again counts as time that has passed, once. Both are decided in one step, at one time.
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
