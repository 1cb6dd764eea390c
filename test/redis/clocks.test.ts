/** Clocks that disagree: of the processes that ask, and of the server before and after a step. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { createLimiter } from "sluice";
import { redisStore } from "sluice/redis";
import { describe, expect, inject, it } from "vitest";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { hasCompiler, startShiftedRedis } from "../servers/clock-shim.js";

const bare = { onStoreError: "throw", localDenialMs: 0, deadlineMs: 20_000 } as const;
const HOUR = 3_600_000;

/** What a process does whose clock is off: spends as often as it can for a while, and tells how much it got. */
const spender = (offsetMs: number, port: number, prefix: string) => `
  const real = Date.now;
  Date.now = () => real() + ${offsetMs};
  const { Redis } = await import("ioredis");
  const { redisRateLimiter } = await import("sluice/redis");
  const redis = new Redis(${port}, { db: 4 });
  const limiter = redisRateLimiter(redis, { capacity: 10, tokensPerSecond: 50, prefix: "${prefix}" }, { localDenialMs: 0, onStoreError: "throw", deadlineMs: "20s" });
  await redis.ping();
  const now = async () => { const [s, us] = await redis.time(); return s * 1000 + us / 1000; };
  const first = await now();
  let [admitted, last] = [0, first];
  while (last - first < 1500) {
    for (let i = 0; i < 20; i++) if ((await limiter.consume("k")).allowed) admitted++;
    last = await now();
  }
  redis.disconnect();
  console.log(JSON.stringify({ admitted, first, last }));
`;

describe("processes whose clocks are 500 ms apart", () => {
  it("admit together no more than one would, and no less", async () => {
    const port = inject("redisPort");
    const prefix = `skew ${process.pid}.${performance.now()}`;
    const runs = await Promise.all(
      [-250, 250].map(async (offset) => {
        const args = ["--input-type=module", "-e", spender(offset, port, prefix)];
        // The package by its name is the one that was built.
        const { stdout } = await promisify(execFile)("node", args, { cwd: new URL("../..", import.meta.url) });
        return JSON.parse(stdout) as { admitted: number; first: number; last: number };
      }),
    );
    const admitted = runs.reduce((sum, run) => sum + run.admitted, 0);
    const elapsed = Math.max(...runs.map(({ last }) => last)) - Math.min(...runs.map(({ first }) => first));
    expect(admitted).toBeLessThanOrEqual(Math.floor(10 + (50 * elapsed) / 1000));
    const busiest = Math.max(...runs.map(({ first, last }) => last - first));
    expect(admitted, "at least what one process would get").toBeGreaterThanOrEqual(Math.floor((50 * busiest) / 1000));
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
        // Forward again counts as time that has passed, once. A fixed window may end just now.
        server.shift(0);
        expect((await limiter.consume("k", 4)).allowed).toBe(true);
        if (algorithm !== "fixed-window") expect((await limiter.consume("k", 4)).allowed).toBe(false);
      } finally {
        redis.disconnect();
        await server.stop();
      }
    },
  );
});
