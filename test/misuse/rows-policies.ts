/** Mistakes in policies: rates as text, numbers, and the options of other libraries. */
import { createLimiter, fixedWindow, memoryRateLimiter, memoryStore, slidingWindow, tokenBucket } from "sluice";
import { rateLimit } from "sluice/express";
import { redisRateLimiter } from "sluice/redis";
import { unconnectedClient } from "./clients.ts";
import { type Case, type Row, see, wrong } from "./row.ts";

const rateOf = (text: string) => () => memoryRateLimiter(wrong(text)).getPolicy().name;
/** The same text in a limiter and in a middleware. */
const rejected = (text: string, message: string): Case[] => [
  { code: `memoryRateLimiter("${text}")`, run: rateOf(text), throws: see("invalid-option", message) },
  {
    code: `rateLimit({ policy: "${text}" })`,
    run: () => rateLimit({ policy: wrong(text) }),
    throws: see("invalid-option", message),
  },
];
const accepted = (text: string, name: string): Case[] => [
  { code: `memoryRateLimiter("${text}")`, run: rateOf(text), returns: name },
  {
    code: `rateLimit({ policy: "${text}" })`,
    run: () => typeof rateLimit({ policy: wrong(text) }),
    returns: "function",
  },
];

export const policyRows: readonly Row[] = [
  { number: 1, what: "min as a unit", before: "B-", grade: "A", cases: accepted("100/min", "100/min") },
  {
    number: 2,
    what: "a rate in words",
    before: "B",
    grade: "A",
    cases: rejected("10 per second", 'policy "10 per second" is not a rate. Write "10/s".'),
  },
  {
    number: 3,
    what: "a limit of 0",
    before: "C",
    grade: "A",
    cases: rejected("0/s", 'policy must be a rate with a count of at least 1, but received "0/s".'),
  },
  { number: 4, what: "day as a unit", before: "B-", grade: "A", cases: accepted("1000/day", "1000/day") },
  {
    number: 5,
    what: "a fraction",
    before: "C",
    grade: "A",
    cases: rejected("1.5/s", 'policy "1.5/s" is not a rate. The count must be a whole number: write "3/2s".'),
  },
  {
    number: 6,
    what: "a week or a month",
    before: "C",
    grade: "A",
    cases: ["100/w", "100/month"].flatMap((text) =>
      rejected(
        text,
        `policy "${text}" is not a rate. The longest unit is a day: write "100/7d" for a week or "100/30d" for a month.`,
      ),
    ),
  },
  {
    number: 7,
    what: "spaces, or a unit in upper case",
    before: "C",
    grade: "A",
    cases: ["100 / m", "100/M"].flatMap((text) => rejected(text, `policy "${text}" is not a rate. Write "100/m".`)),
  },
  {
    number: 8,
    what: "text as the policy of a limiter",
    before: "A-",
    grade: "A",
    cases: [
      { code: 'memoryRateLimiter("10/s")', run: rateOf("10/s"), returns: "10/s" },
      {
        code: 'redisRateLimiter(client, "5/s")',
        run: () => redisRateLimiter(unconnectedClient(), "5/s").getPolicy().name,
        returns: "5/s",
      },
      {
        code: 'createLimiter({ policy: "5/s", store })',
        run: () => createLimiter({ policy: "5/s", store: memoryStore() }).getPolicy().name,
        returns: "5/s",
      },
    ],
  },
  {
    number: 9,
    what: "the arguments of @upstash/ratelimit",
    before: "D",
    grade: "A",
    cases: [
      {
        code: 'tokenBucket(10, "1 s")',
        run: () => tokenBucket(wrong(10), wrong("1 s")),
        throws: see(
          "invalid-option",
          'policy must be a rate as one string, as in "10/s", or a policy object, but received 10.',
        ),
      },
      {
        code: 'slidingWindow(10, "15 m")',
        run: () => slidingWindow(wrong(10), wrong("15 m")),
        throws: see(
          "invalid-option",
          'policy must be a rate as one string, as in "10/15m", or a policy object, but received 10.',
        ),
      },
    ],
  },
  {
    number: 10,
    what: "a burst beside a window",
    before: "A",
    grade: "A",
    cases: [
      {
        code: 'slidingWindow("100/m", { burst: 5 })',
        run: () => slidingWindow("100/m", wrong({ burst: 5 })),
        throws: see(
          "unknown-option",
          '"burst" is not an option of slidingWindow. Only tokenBucket and leakyBucket allow bursts.',
        ),
      },
    ],
  },
  {
    number: 11,
    what: "a burst of 0",
    before: "C",
    grade: "A",
    cases: [
      {
        code: 'tokenBucket("5/s", { burst: 0 })',
        run: () => tokenBucket("5/s", { burst: 0 }),
        throws: see("invalid-option", "burst must be a whole number >= 1, but received 0."),
      },
    ],
  },
  {
    number: 12,
    what: "window for windowMs",
    before: "B",
    grade: "A",
    cases: [
      {
        code: 'fixedWindow({ limit: 5, window: "1h" })',
        run: () => fixedWindow(wrong({ limit: 5, window: "1h" })),
        throws: see("unknown-option", '"window" is not an option of a fixed-window policy. Did you mean windowMs?'),
      },
    ],
  },
  {
    number: 13,
    what: "a number from the environment",
    before: "A",
    grade: "A",
    cases: [
      {
        code: 'memoryRateLimiter(fixedWindow({ limit: 5, windowMs: "60000" }))',
        run: () => memoryRateLimiter(fixedWindow({ limit: 5, windowMs: wrong("60000") })),
        throws: see(
          "invalid-option",
          'windowMs must be a number of milliseconds, or text such as "250ms", "1s", "5m", "1h" or "30d", but received "60000".',
        ),
      },
    ],
  },
  {
    number: 18,
    what: "the options of rate-limiter-flexible",
    before: "B",
    grade: "A",
    cases: [
      {
        code: "memoryRateLimiter({ points: 10, duration: 1 })",
        run: () => memoryRateLimiter(wrong({ points: 10, duration: 1 })),
        throws: see(
          "unknown-option",
          '"points" is not an option of a token-bucket policy. For 10 points every 60 s, write "10/60s fixed".',
        ),
      },
      {
        code: "rateLimit({ points: 10, duration: 1 })",
        run: () => rateLimit(wrong({ points: 10, duration: 1 })),
        throws: see(
          "unknown-option",
          '"points" is not an option of rateLimit. Use policy instead, such as policy: "100/m".',
        ),
      },
    ],
  },
];
