/**
 * Variants of the Redis scripts for tests, made from the same files: one reads the time from an argument, another one
 * also returns the server's time and numbers the decisions of each key.
 */
import { joinIdempotencyScript, joinScript, readPart, shaOf } from "../../scripts/make-redis-script.js";

/** @typedef {{ readonly text: string, readonly sha: string }} Variant */

/** @returns {Variant} */
export const variant = (/** @type {string} */ text) => ({ text, sha: shaOf(text) });

/** Replaces the two lines of clock.lua. */
export const FAKE_CLOCK = "local now = tonumber(table.remove(ARGV))";
export const fakeClockScript = variant(joinScript({ clock: FAKE_CLOCK }));

/** Replaces `return replies`. The number of a key is kept for an hour, longer than the buckets of the tests. */
export const LOGGED_REPLY = `local numbers = {}
for i = 1, #KEYS do
numbers[i] = redis.call('INCR', KEYS[i] .. '#')
redis.call('PEXPIRE', KEYS[i] .. '#', 3600000)
end
return { replies, now, numbers }`;
export const loggedScript = variant(
  joinScript(
    Object.fromEntries(
      ["take-tokens", "take-groups", "step"].map((part) => [
        part,
        readPart(part).replace("return replies\n", `${LOGGED_REPLY}\n`),
      ]),
    ),
  ),
);

/** The script of the idempotency store with a clock from an argument. */
export const idempotencyOnFakeClock = variant(joinIdempotencyScript({ clock: FAKE_CLOCK }));
