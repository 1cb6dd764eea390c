/**
 * What every server here does: it takes frames `{"type":"say","n":1}` and writes down which it handled, and what the
 * guard told of the others. `scenario` says how it is guarded.
 */
import { memoryRateLimiter } from "../../../dist/index.js";
import { jsonType, perUserKey } from "../../../dist/ws.js";

/**
 * @typedef {object} Scenario
 * @property {"send" | "close" | "custom" | "ban"} [onExceeded]
 * @property {"memory" | "late" | "redis"} [store] `late` answers after a random while, and to users called slow after GET /release
 * @property {number} [capacity]
 * @property {string} [rate] of the refill
 * @property {boolean} [throwing] whether the hook throws
 * @property {object} [more] options as they are
 * @property {{ capacity: number, rate: string, late?: boolean }} [upgrades]
 */

/** @typedef {{ handled: unknown[], hooks: object[], invalid: number, errors: string[], open: number }} Journal */

/**
 * @param {Scenario} scenario
 * @param {(policy: object) => object} [redisLimiter]
 */
export function roomOf(scenario, redisLimiter) {
  /** @type {Journal} */
  const journal = { handled: [], hooks: [], invalid: 0, errors: [], open: 0 };
  const { store = "memory", capacity = 3, rate = "1/h", upgrades, throwing, onExceeded = "send", more = {} } = scenario;
  let release;
  const released = new Promise((resolve) => {
    release = resolve;
  });
  const policy = { capacity, tokensPerSecond: rate, name: "frames" };
  const limiter =
    store === "redis"
      ? redisLimiter?.(policy)
      : store === "late"
        ? late(memoryRateLimiter(policy), released)
        : memoryRateLimiter(policy);
  const options = {
    limits: { limiter, key: perUserKey },
    typeOf: jsonType(),
    types: ["say"],
    onExceeded,
    onLimitExceeded(info) {
      journal.hooks.push(info);
      if (throwing) throw new Error("of the hook");
    },
    onInvalid: () => journal.invalid++,
    onError: (error) => journal.errors.push(String(error)),
    ...(upgrades && { upgrades: upgradesOf(upgrades, released) }),
    ...more,
  };
  const handle = (text, login) => {
    const { n, holdMs, userId } = JSON.parse(text);
    journal.handled.push(n);
    if (userId) login({ userId });
    if (holdMs) return new Promise((resolve) => setTimeout(resolve, holdMs));
  };
  const answer = (url) => {
    if (url.endsWith("/release")) release();
    return JSON.stringify(journal);
  };
  return { options, journal, handle, answer };
}

function upgradesOf({ capacity, rate, late: isLate }, released) {
  const limiter = memoryRateLimiter({ capacity, tokensPerSecond: rate });
  return isLate ? late(limiter, released) : limiter;
}

/** A store that is far away; for those who are called slow, until it is told that it is not. */
function late(limiter, released) {
  return {
    async consume(key, cost) {
      const decision = limiter.consumeSync(key, cost);
      if (key.includes("slow")) await released;
      else await new Promise((resolve) => setTimeout(resolve, Math.random() * 30));
      return decision;
    },
    getPolicy: () => limiter.getPolicy(),
  };
}

/** Who connects, as these servers are told. A real one would verify that. */
export function userOf(/** @type {string} */ url) {
  const { userId, big } = Object.fromEntries(
    [...new URL(url, "http://localhost").searchParams].map(([name, value]) => [
      name === "user" ? "userId" : name,
      value,
    ]),
  );
  return { ...(userId && { userId }), ...(big && { big: "x".repeat(Number(big)) }) };
}
