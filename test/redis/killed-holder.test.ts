/** A process that is killed while it holds: its slots are free again when the lease ends, and not before. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { concurrency, hold } from "sluice";
import { redisRateLimiter } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { withRedis } from "../servers/needs.ts";
import { redis, server } from "./own-redis.ts";

const LIMIT = 5;
const LEASE_MS = 1500;

/** Holds every slot, prints the server's time before and after that, and renews nothing. */
const holder = (port: number) => `
  const { Redis } = await import("ioredis");
  const { concurrency, hold } = await import("sluice");
  const { redisRateLimiter } = await import("sluice/redis");
  const redis = new Redis(${port});
  const limiter = redisRateLimiter(redis, concurrency(${LIMIT}, { leaseMs: ${LEASE_MS}, name: "slots" }));
  const now = async () => { const [s, us] = await redis.time(); return s * 1000 + Math.floor(us / 1000); };
  const before = await now();
  const held = await Promise.all(Array.from({ length: ${LIMIT} }, () => hold(limiter, "k")));
  console.log(JSON.stringify({ before, after: await now(), allowed: held.filter(({ allowed }) => allowed).length }));
`;

describe("a holder that is killed", withRedis, () => {
  it("keeps its slots until its lease ends, and no longer", async () => {
    const root = fileURLToPath(new URL("../..", import.meta.url));
    const child = spawn("node", ["--input-type=module", "--eval", holder(server.port)], { cwd: root });
    const { value } = await createInterface(child.stdout)[Symbol.asyncIterator]().next();
    const { before, after, allowed }: { before: number; after: number; allowed: number } = JSON.parse(String(value));
    expect(allowed).toBe(LIMIT);
    child.kill("SIGKILL");
    await once(child, "exit");

    const limiter = redisRateLimiter(redis, concurrency(LIMIT, { leaseMs: LEASE_MS, name: "slots" }));
    const serverTime = async () => {
      const [seconds, micros] = await redis.time();
      return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
    };
    let [sentAt, denied] = [await serverTime(), 0];
    while (!(await hold(limiter, "k", LIMIT)).allowed) {
      // By the server's clock: a call that is sent after the end of the lease is admitted.
      expect(sentAt).toBeLessThan(after + LEASE_MS);
      denied++;
      sentAt = await serverTime();
    }
    // All slots are free at once, and no earlier.
    expect(await serverTime()).toBeGreaterThanOrEqual(before + LEASE_MS);
    expect(denied).toBeGreaterThan(0);
  });
});
