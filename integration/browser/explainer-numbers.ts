/**
 * The numbers of the explainer, computed with the library and without the code of the site: 10 s of traffic, in which all requests of a
 * round arrive in a part of it.
 */
import {
  fixedWindow,
  leakyBucket,
  memoryRateLimiter,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "sluice";

/** The settings of the explainer, as its labels name them. */
export interface Scenario {
  algorithm: string;
  limit: number;
  windowS: 1 | 2 | 5;
  burst: number;
  perSecond: number;
  pattern: string;
}

/** The defaults of the page. */
export const START: Scenario = {
  algorithm: "Token bucket",
  limit: 10,
  windowS: 1,
  burst: 10,
  perSecond: 15,
  pattern: "Bursts",
};

const POLICIES: Record<string, (scenario: Scenario) => Policy> = {
  "Token bucket": ({ limit, windowS, burst }) => tokenBucket(`${limit}/${windowS}s`, { burst }),
  "Leaky bucket": ({ limit, windowS, burst }) => leakyBucket(`${limit}/${windowS}s`, { burst }),
  "Fixed window": ({ limit, windowS }) => fixedWindow(`${limit}/${windowS}s`),
  "Sliding window": ({ limit, windowS }) => slidingWindow(`${limit}/${windowS}s`),
  "Sliding log": ({ limit, windowS }) => slidingLog(`${limit}/${windowS}s`),
};

/** What the page has to show: admitted, denied, share of denied, and most in any window. */
export function expectedNumbers(scenario: Scenario): string[] {
  const { perSecond, windowS, pattern } = scenario;
  const [everyMs, startMs, lengthMs] = {
    Steady: [10_000, 0, 10_000],
    Bursts: [2000, 0, 500],
    "At window edges": [2000 * windowS, 900 * windowS, 200 * windowS],
  }[pattern] as [number, number, number];
  const count = Math.round((perSecond * everyMs) / 1000);
  const arrivals = Array.from({ length: Math.ceil(10_000 / everyMs) }, (_, round) =>
    Array.from({ length: count }, (_, i) => Math.floor(round * everyMs + startMs + (i * lengthMs) / count)),
  )
    .flat()
    .filter((atMs) => atMs < 10_000);
  let now = 0;
  const limiter = memoryRateLimiter((POLICIES[scenario.algorithm] as (typeof POLICIES)[string])(scenario), {
    clock: { now: () => now },
  });
  const decisions = arrivals.map((atMs) => {
    now = atMs;
    const { allowed, delayMs = 0 } = limiter.consumeSync("client");
    return { allowed, startMs: atMs + delayMs };
  });
  const starts = decisions.filter(({ allowed }) => allowed).map(({ startMs }) => startMs);
  const windowMs = windowS * 1000;
  const worst = Math.max(...starts.map((from) => starts.filter((at) => at >= from && at < from + windowMs).length));
  const denied = decisions.length - starts.length;
  return [`${starts.length}`, `${denied}`, `${((denied / decisions.length) * 100).toFixed(1)} %`, `${worst}`];
}
