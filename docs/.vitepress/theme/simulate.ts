/** Runs traffic through a real limiter in simulated time, for the explainer of the home page. The same input gives the same result. */
import { memoryRateLimiter, type Policy } from "sluice";

/** The algorithms to choose from. */
export type Algorithm = "token-bucket" | "leaky-bucket" | "fixed-window" | "sliding-window" | "sliding-log";

/** How the requests of the traffic are spread. */
export type Pattern = "steady" | "bursts" | "edges";

/** Everything that a reader can set. */
export interface Scenario {
  readonly algorithm: Algorithm;
  /** Requests per window. */
  readonly limit: number;
  readonly windowMs: number;
  /** The capacity of a bucket. Windows have none. */
  readonly burst: number;
  /** The average number of requests per second. */
  readonly perSecond: number;
  readonly pattern: Pattern;
}

/** One request. */
export interface Outcome {
  readonly atMs: number;
  readonly allowed: boolean;
  /** When it goes ahead: later than it arrives in a leaky bucket. */
  readonly startMs: number;
}

/** What happened to all requests. */
export interface Simulation {
  readonly outcomes: readonly Outcome[];
  readonly admitted: number;
  readonly denied: number;
  /** Percentage of all requests. */
  readonly deniedPercent: number;
  /** The most requests that went ahead in any period as long as the window. */
  readonly worstWindow: number;
  readonly longestDelayMs: number;
  /** What was left of the budget at each multiple of `LEVEL_STEP_MS`. */
  readonly levels: readonly number[];
  /** The most that can be left. */
  readonly capacity: number;
}

export const DURATION_MS = 10_000;
export const LEVEL_STEP_MS = 50;

/** Bursts: all requests of 2 s arrive in half a second. */
const BURST_EVERY_MS = 2000;
const BURST_MS = 500;

/** Whether the algorithm is a bucket, which has a burst. */
export function isBucket(algorithm: Algorithm): boolean {
  return algorithm === "token-bucket" || algorithm === "leaky-bucket";
}

/** The policy of a scenario. */
export function policyOf({ algorithm, limit, windowMs, burst }: Scenario): Policy {
  const perSecond = (limit * 1000) / windowMs;
  if (algorithm === "token-bucket") return { capacity: burst, tokensPerSecond: perSecond };
  if (algorithm === "leaky-bucket") return { algorithm, capacity: burst, leaksPerSecond: perSecond };
  return { algorithm, limit, windowMs };
}

const FUNCTIONS: Record<Algorithm, string> = {
  "token-bucket": "tokenBucket",
  "leaky-bucket": "leakyBucket",
  "fixed-window": "fixedWindow",
  "sliding-window": "slidingWindow",
  "sliding-log": "slidingLog",
};

/** The policy of a scenario as code. */
export function codeOf({ algorithm, limit, windowMs, burst }: Scenario): string {
  const rate = windowMs === 1000 ? `${limit}/s` : `${limit}/${windowMs / 1000}s`;
  return `${FUNCTIONS[algorithm]}("${rate}"${isBucket(algorithm) ? `, { burst: ${burst} }` : ""})`;
}

/** The instants at which requests arrive, in order. */
export function arrivalsOf({ perSecond, pattern, windowMs }: Scenario): number[] {
  if (pattern === "steady") return spread(0, DURATION_MS, perSecond * (DURATION_MS / 1000));
  const everyMs = pattern === "bursts" ? BURST_EVERY_MS : 2 * windowMs;
  const count = (perSecond * everyMs) / 1000;
  const arrivals: number[] = [];
  for (let start = 0; start < DURATION_MS; start += everyMs) {
    // Half of the requests before the end of a window, half after it.
    if (pattern === "edges") arrivals.push(...spread(start + windowMs * 0.9, windowMs * 0.2, count));
    else arrivals.push(...spread(start, BURST_MS, count));
  }
  return arrivals.filter((atMs) => atMs < DURATION_MS);
}

function spread(startMs: number, lengthMs: number, count: number): number[] {
  return Array.from({ length: Math.round(count) }, (_, i) => Math.floor(startMs + (i * lengthMs) / Math.round(count)));
}

/** Sends the requests of a scenario to a limiter whose clock is simulated. */
export function simulate(scenario: Scenario): Simulation {
  let now = 0;
  const limiter = memoryRateLimiter(policyOf(scenario), { clock: { now: () => now } });
  const outcomes: Outcome[] = [];
  const levels: number[] = [];
  const levelUntil = (endMs: number): void => {
    for (; levels.length * LEVEL_STEP_MS < endMs; levels.push(limiter.consumeSync("client", 0).remaining)) {
      now = levels.length * LEVEL_STEP_MS;
    }
  };
  for (const atMs of arrivalsOf(scenario)) {
    levelUntil(atMs);
    now = atMs;
    const { allowed, delayMs = 0 } = limiter.consumeSync("client");
    outcomes.push({ atMs, allowed, startMs: atMs + delayMs });
  }
  levelUntil(DURATION_MS + 1);
  const admitted = outcomes.filter(({ allowed }) => allowed);
  const denied = outcomes.length - admitted.length;
  return {
    outcomes,
    admitted: admitted.length,
    denied,
    deniedPercent: outcomes.length === 0 ? 0 : (denied / outcomes.length) * 100,
    worstWindow: mostWithin(
      admitted.map(({ startMs }) => startMs),
      scenario.windowMs,
    ),
    longestDelayMs: Math.max(0, ...admitted.map(({ atMs, startMs }) => startMs - atMs)),
    levels,
    capacity: limiter.getPolicy().capacity,
  };
}

/** The most instants within any period of a length. The instants are in order. */
function mostWithin(instants: readonly number[], lengthMs: number): number {
  let most = 0;
  let first = 0;
  for (const [i, instant] of instants.entries()) {
    while ((instants[first] as number) <= instant - lengthMs) first++;
    most = Math.max(most, i - first + 1);
  }
  return most;
}
