/**
 * Steady traffic on limiters that share one Redis and have different `onStoreError`. Counts what the store and the
 * fallbacks admitted, the slowest decision and the time of the last decision without the store.
 */
import { createLimiter } from "../dist/index.js";
import { redisStore } from "../dist/redis.js";

const DEADLINE_MS = 250;
/** Every decision must be made within this time. */
export const MAX_DECISION_MS = DEADLINE_MS + 250;
const CAPACITY = 50;
const PER_SECOND = 100;
const CALLERS = 8;
const PAUSE_MS = 4;
const COUNTING_CAPACITY = 1_000_000;

/** Starts the traffic. `stop` ends it and returns the counts. */
export function startLoad(/** @type {any} */ client) {
  const store = redisStore(client);
  const start = performance.now();
  const events = [];
  const make = (/** @type {string} */ name, /** @type {any} */ onStoreError, capacity = CAPACITY, rate = PER_SECOND) =>
    createLimiter({
      policy: { capacity, tokensPerSecond: rate, name },
      store,
      onStoreError,
      deadlineMs: DEADLINE_MS,
      localDenialMs: 0,
      onEvent: (event) => events.push({ ...event, atMs: performance.now() - start }),
    });
  const limiters = { closed: make("closed", "closed"), local: make("local", "local"), open: make("open", "open") };
  // Never runs out: the store's total reveals calls that were charged twice.
  const counting = make("counting", "throw", COUNTING_CAPACITY, 1e-3);
  const seen = {
    decisions: 0,
    slowestMs: 0,
    lastWithoutMs: 0,
    without: 0,
    closed: 0,
    local: 0,
    localDegraded: 0,
    open: 0,
    openDegraded: 0,
    known: 0,
    ambiguous: 0,
    unhandled: 0,
  };
  const unhandled = () => void seen.unhandled++;
  process.on("unhandledRejection", unhandled);
  let running = true;

  const timed = async (/** @type {() => Promise<any>} */ decide) => {
    const calledMs = performance.now();
    const decision = await decide();
    const now = performance.now();
    seen.decisions++;
    seen.slowestMs = Math.max(seen.slowestMs, now - calledMs);
    const without = decision === undefined || decision.degraded || decision.unavailable;
    if (without) {
      seen.without++;
      seen.lastWithoutMs = now - start;
    }
    return decision;
  };
  const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  const spend = async (/** @type {keyof typeof limiters} */ mode) => {
    while (running) {
      const { allowed, degraded } = await timed(() => limiters[mode].consume("hot"));
      if (allowed && degraded) seen[mode === "open" ? "openDegraded" : "localDegraded"]++;
      else if (allowed) seen[mode]++;
      await pause();
    }
  };
  const count = async () => {
    while (running) {
      const decision = await timed(() => counting.consume("count").catch(() => undefined));
      if (decision === undefined) seen.ambiguous++;
      else seen.known++;
      await pause();
    }
  };
  const callers = Array.from({ length: CALLERS }, () => [spend("closed"), spend("local"), spend("open"), count()]);

  return {
    /** Milliseconds since the start. */
    now: () => performance.now() - start,
    seen,
    events,
    async stop() {
      running = false;
      const hung = new Promise((resolve) => setTimeout(resolve, 5000, "hung"));
      const ended = await Promise.race([Promise.all(callers.flat()), hung]);
      process.off("unhandledRejection", unhandled);
      const elapsedMs = performance.now() - start;
      const spent = await counting.peek("count").then(
        ({ remaining }) => COUNTING_CAPACITY - remaining,
        () => undefined,
      );
      return { ...seen, hung: ended === "hung", elapsedMs, spent, events };
    },
  };
}

/** The maximum that may be admitted if the state was lost `losses` times. */
export function boundOf(/** @type {number} */ elapsedMs, losses = 0) {
  return Math.floor(CAPACITY * (1 + losses) + (PER_SECOND * (elapsedMs + 1)) / 1000);
}
