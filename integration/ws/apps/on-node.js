/** Reads the scenario of servers on Node.js, Bun and Deno, and reports the port that they listen on. */
import { Redis } from "ioredis";
import { redisRateLimiter } from "../../../dist/redis.js";
import { roomOf } from "./room.js";

const { scenario, redisUrl } = JSON.parse(process.env.SLUICE_SCENARIO ?? "{}");
const client = redisUrl && new Redis(redisUrl);

export const room = roomOf(scenario, (policy) => redisRateLimiter(client, policy));

/** Prints the port for the test. */
export function listening(/** @type {number} */ port) {
  console.log(`listening on ${port}`);
}
