/**
 * Steady traffic on limiters that share one Redis and differ in what they do without it, and what came of it: who was
 * admitted, by whom, how long it took, and when the store was back.
 */
import { createLimiter } from "../dist/index.js";
import { redisStore } from "../dist/redis.js";

export const DEADLINE_MS = 250;
/** Every decision has to be settled by then. */
export const LATEST_MS = DEADLINE_MS + 250;
const CAPACITY = 50;
const PER_SECOND = 100;
const CALLERS = 8;
const PAUSE_MS = 4;
const AMPLE = 1_000_000;

/** Starts the traffic. `stop` ends it and gives the figures. */
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
  // Never empty: every charge that reaches it is counted, so that it tells what was charged twice.
  const counting = make("counting", "throw", AMPLE, 1e-3);
  const seen = {
    decisions: 0,
    slowestMs: 0,
    lastWithoutMs: 0,
    firstBackMs: 0,
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

  const timed = async (/** @type {() => Promise<any>} */ ask) => {
    const asked = performance.now();
    const decision = await ask();
    const now = performance.now();
    seen.decisions++;
    seen.slowestMs = Math.max(seen.slowestMs, now - asked);
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
        ({ remaining }) => AMPLE - remaining,
        () => undefined,
      );
      return { ...seen, hung: ended === "hung", elapsedMs, spent, events };
    },
  };
}

/** The most that may be admitted after so many losses of state. */
export function boundOf(/** @type {number} */ elapsedMs, losses = 0) {
  return Math.floor(CAPACITY * (1 + losses) + (PER_SECOND * (elapsedMs + 1)) / 1000);
}
