/** A client that runs the script with a fake clock, on keys with a unique prefix. */
import type { Redis } from "ioredis";
import type { Clock } from "sluice";
import type { IoredisLike } from "sluice/redis";
import { fakeClockScript, type Variant } from "./script-variants.js";

let made = 0;

/** Wraps an ioredis client. */
export function onFakeTime(redis: Redis, clock: Clock, variant: Variant = fakeClockScript): IoredisLike {
  return {
    ...withVariant(redis, variant, `t${process.pid}.${made++}:`, () => [String(clock.now())]),
    get status() {
      return redis.status;
    },
  };
}

function withVariant(
  redis: Redis,
  { text, sha }: Variant,
  prefix: string,
  more: () => string[],
): Omit<IoredisLike, "status"> {
  const rest = (count: number, values: string[]) => [
    ...values.slice(0, count).map((key) => prefix + key),
    ...values.slice(count),
    ...more(),
  ];
  return {
    evalsha: (_, count, ...values) => redis.evalsha(sha, count, ...rest(count, values)),
    eval: (_, count, ...values) => redis.eval(text, count, ...rest(count, values)),
  };
}
