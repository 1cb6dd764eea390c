/**
 * Two variants of the Redis script, made from the same files: one that takes its time from an argument, one that also
 * tells the server's time and numbers the decisions of each key. Neither is in the package.
 */
import { joinScript, readPart, shaOf } from "../../scripts/make-redis-script.js";

/** @typedef {{ readonly text: string, readonly sha: string }} Variant */

/** @returns {Variant} */
const variant = (/** @type {string} */ text) => ({ text, sha: shaOf(text) });

/** The line that the clock's two lines are replaced with. */
export const FAKE_CLOCK = "local now = tonumber(table.remove(ARGV))";
export const fakeClockScript = variant(joinScript({ clock: FAKE_CLOCK }));

/** What the lines are replaced with that give the reply. The number is kept as long as the bucket could be. */
export const LOGGED_REPLY = `local numbers = {}
for i = 1, #KEYS do
numbers[i] = redis.call('INCR', KEYS[i] .. '#')
redis.call('PEXPIRE', KEYS[i] .. '#', 3600000)
end
return { replies, now, numbers }`;
export const loggedScript = variant(
  joinScript(
    Object.fromEntries(
      ["take-tokens", "step"].map((part) => [part, readPart(part).replace("return replies\n", `${LOGGED_REPLY}\n`)]),
    ),
  ),
);
