/** What the servers on Node, Bun and Deno are told at their start, and how they say that they listen. */
import { Redis } from "ioredis";
import { redisRateLimiter } from "../../../dist/redis.js";
import { roomOf } from "./room.js";

const { scenario, redisUrl } = JSON.parse(process.env.SLUICE_SCENARIO ?? "{}");
const client = redisUrl && new Redis(redisUrl);

export const room = roomOf(scenario, (policy) => redisRateLimiter(client, policy));

/** Tells the test. */
export function listening(/** @type {number} */ port) {
  console.log(`listening on ${port}`);
}
