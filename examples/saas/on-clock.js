/** A Redis client whose script reads the time from a clock of this process, as the tests of the package do. */
import { fakeClockScript } from "../../test/redis/script-variants.js";

/**
 * @param {import("ioredis").Redis} redis
 * @param {import("sluice").Clock} clock
 * @returns {import("sluice/redis").IoredisLike}
 */
export function onClock(redis, clock) {
  const { sha, text } = fakeClockScript;
  return {
    get status() {
      return redis.status;
    },
    evalsha: (_, count, ...values) => redis.evalsha(sha, count, ...values, String(clock.now())),
    eval: (_, count, ...values) => redis.eval(text, count, ...values, String(clock.now())),
  };
}
