/**
 * The application that every server here runs: it receives messages `{"type":"say","n":1}`, and records which were handled
 * and which the guard rejected. `scenario` has the options of the guard.
 */
import { memoryRateLimiter } from "../../../dist/index.js";
import { jsonType, perUserKey } from "../../../dist/ws.js";

/**
 * @typedef {object} Scenario
 * @property {"send" | "close" | "custom" | "ban"} [onExceeded]
 * @property {"memory" | "late" | "redis"} [store] `late` has a random delay; users called slow wait for GET /release
 * @property {number} [capacity]
 * @property {string} [rate] refill rate
 * @property {boolean} [throwing] whether `onLimitExceeded` throws
 * @property {object} [more] further options of the guard
 * @property {{ capacity: number, rate: string, late?: boolean }} [upgrades]
 */

/** @typedef {{ handled: unknown[], exceeded: object[], invalid: number, errors: string[], open: number }} Journal */

/**
 * @param {Scenario} scenario
 * @param {(policy: object) => object} [redisLimiter]
 */
export function roomOf(scenario, redisLimiter) {
  /** @type {Journal} */
  const journal = { handled: [], exceeded: [], invalid: 0, errors: [], open: 0 };
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
      journal.exceeded.push(info);
      if (throwing) throw new Error("of the listener");
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
  const respond = (url) => {
    if (url.endsWith("/release")) release();
    return JSON.stringify(journal);
  };
  return { options, journal, handle, respond };
}

function upgradesOf({ capacity, rate, late: isLate }, released) {
  const limiter = memoryRateLimiter({ capacity, tokensPerSecond: rate });
  return isLate ? late(limiter, released) : limiter;
}

/** Makes a limiter asynchronous. Keys that contain "slow" wait for `released`. */
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

/** Reads the user from the URL. A real server would verify it. */
export function userOf(/** @type {string} */ url) {
  const { userId, big } = Object.fromEntries(
    [...new URL(url, "http://localhost").searchParams].map(([name, value]) => [
      name === "user" ? "userId" : name,
      value,
    ]),
  );
  return { ...(userId && { userId }), ...(big && { big: "x".repeat(Number(big)) }) };
}
