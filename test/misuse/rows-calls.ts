/** Mistakes that show with a request or a call: keys, costs, limiters and callbacks. */
import { memoryRateLimiter } from "sluice";
import { rateLimit } from "sluice/express";
import { vi } from "vitest";
import { visitExpress } from "./apps.ts";
import { type Row, see, warning, wrong } from "./row.ts";

const limiter = memoryRateLimiter("5/s");
const NOT_A_KEY = "key must be a string that is not empty, but received";
const NOT_A_COST = "cost must be a whole number from 0 to 2147483647, but received";
const limited = (options: object) => rateLimit(wrong({ policy: "1/d", key: () => "k", ...options }));

export const callRows: readonly Row[] = [
  {
    number: 29,
    what: "a key that is not a string",
    before: "A-",
    grade: "A",
    cases: [
      {
        code: "consume(undefined)",
        run: () => limiter.consume(wrong(undefined)),
        throws: see("invalid-key", `${NOT_A_KEY} undefined.`),
      },
      { code: "consume(42)", run: () => limiter.consume(wrong(42)), throws: see("invalid-key", `${NOT_A_KEY} 42.`) },
    ],
  },
  {
    number: 30,
    what: "a cost that is not a whole number",
    before: "A",
    grade: "A",
    cases: [
      ...[-1, "2", Number.NaN].map((cost) => ({
        code: `consume("a", ${JSON.stringify(cost)})`,
        run: () => limiter.consume("a", wrong(cost)),
        throws: see("invalid-cost", `${NOT_A_COST} ${typeof cost === "string" ? `"${cost}"` : cost}.`),
      })),
      {
        code: 'refund("a", -5)',
        run: () => limiter.refund("a", -5),
        throws: see("invalid-cost", `${NOT_A_COST} -5.`),
      },
    ],
  },
  {
    number: 31,
    what: "a decision taken for a boolean",
    before: "F",
    grade: "F",
    reason:
      "An object is always truthy, and JavaScript calls nothing when it is tested. TypeScript reports it without await. With it, the rule no-unnecessary-condition of typescript-eslint does, which the first page of the guide names.",
    cases: [
      {
        code: "if (await limiter.consume(key))",
        run: async () => Boolean(await memoryRateLimiter("1/d").consume("k", 2)),
        returns: true,
      },
      {
        code: 'import { memoryRateLimiter } from "sluice";\nif (memoryRateLimiter("1/s").consume("k")) console.log("allowed");',
        diagnostic:
          /^error TS2801: This condition will always return true since this 'Promise<.*>' is always defined\.$/,
      },
      {
        code: 'import { memoryRateLimiter } from "sluice";\nif (memoryRateLimiter("1/s").consume("k").allowed) console.log("allowed");',
        diagnostic: "error TS2339: Property 'allowed' does not exist on type 'Promise<Decision>'.",
      },
    ],
  },
  {
    number: 32,
    what: "an async key that returns undefined",
    before: "A",
    grade: "A",
    cases: [
      {
        code: "rateLimit({ policy, key: async () => undefined })",
        run: () => visitExpress(limited({ key: async () => undefined })),
        returns: { statuses: [500], error: see("invalid-key", `${NOT_A_KEY} undefined.`) },
      },
      {
        code: 'import { rateLimit } from "sluice/node";\nrateLimit({ policy: "1/s", key: async (): Promise<string | undefined> => undefined });',
        diagnostic:
          /^error TS2322: Type '\(\) => Promise<string \| undefined>' is not assignable to type '\(request: .* => string \| PromiseLike<string>'\.$/,
      },
    ],
  },
  {
    number: 33,
    what: "a key that throws",
    before: "A",
    grade: "A",
    cases: [
      {
        code: 'rateLimit({ policy, key: () => { throw new Error("no session") } })',
        run: () =>
          visitExpress(
            limited({
              key: () => {
                throw new Error("no session");
              },
            }),
          ),
        returns: { statuses: [500], error: "no session" },
      },
    ],
  },
  {
    number: 34,
    what: "a key without its id",
    before: "F",
    grade: "A",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: code of a user
    cases: ["`user:${request.user?.id}`", "`${request.user}:api`", "String(request.user)"].map((code, i) => ({
      code: `rateLimit({ policy, key: (request) => ${code} })`,
      run: () =>
        visitExpress(limited({ policy: "9/d", key: () => ["user:undefined", "null:api", "[object Object]"][i] }), 2),
      returns: { statuses: [200, 200] },
      warns: warning(
        "misuse",
        '2 of the last 2 keys contained "undefined", "null", "NaN" or "[object Object]" in place of an id, so these requests share one bucket. Run rateLimit after authentication, or return another key for anonymous clients.',
      ),
    })),
  },
  {
    number: 35,
    what: "a cost that is NaN",
    before: "A",
    grade: "A",
    cases: [
      {
        code: "rateLimit({ policy, cost: (request) => Number(request.query.n) })",
        run: () => visitExpress(limited({ cost: (request: { query: { n?: string } }) => Number(request.query.n) })),
        returns: { statuses: [500], error: see("invalid-cost", `${NOT_A_COST} NaN.`) },
      },
    ],
  },
  {
    number: 36,
    what: "a limiter for every request",
    before: "F",
    grade: "A",
    cases: [
      {
        code: 'rateLimit({ limiter: () => memoryRateLimiter("1/m") })',
        run: () => visitExpress(rateLimit({ limiter: () => memoryRateLimiter("1/m") }), 2),
        returns: { statuses: [200, 200] },
        warns: warning(
          "misuse",
          "The limiter function returned 2 new limiters in a row for one key, each with an empty memory store, so nothing is limited. Create limiters once, outside of the function.",
        ),
      },
    ],
  },
  {
    number: 38,
    what: "a limiter that rejects with its denials",
    before: "C",
    grade: "A",
    cases: [
      {
        code: "rateLimit({ limiter: new RateLimiterMemory({ points: 1, duration: 1 }) })",
        run: () => visitExpress(rateLimit({ limiter: { consume: () => Promise.reject({ msBeforeNext: 1000 }) } })),
        returns: {
          statuses: [500],
          error: see(
            "invalid-limiter",
            "consume() of the limiter rejected with its denial, as rate-limiter-flexible does. Wrap it to resolve with { allowed: true } or { allowed: false, retryAfterMs: msBeforeNext }.",
          ),
        },
      },
    ],
  },
  {
    number: 39,
    what: "onLimited with (request, response)",
    before: "F",
    grade: "A",
    cases: [
      {
        code: "rateLimit({ policy, onLimited: (request, response) => response.send() })",
        run: () => limited({ onLimited: (_request: unknown, response: { send(): void }) => response.send() }),
        throws: see(
          "invalid-option",
          "onLimited is called with one object, not with (request, response). Write onLimited: ({ args, decision }) => … and read the request from args.",
        ),
      },
      {
        code: "rateLimit({ policy, onLimited: (response) => response.send() })",
        run: () => visitExpress(limited({ onLimited: (response: { send(): void }) => response.send() }), 2),
        returns: { statuses: [200, 429] },
        warns: warning(
          "callback_failed",
          "onLimited of rateLimit failed: TypeError: response.send is not a function. Set onError to receive every such error.",
        ),
      },
    ],
  },
  {
    number: 40,
    what: "onLimited that returns an object, or nothing",
    before: "F",
    grade: "A",
    cases: [
      {
        code: 'rateLimit({ policy, onLimited: () => ({ error: "slow down" }) })',
        run: () => visitExpress(limited({ onLimited: () => ({ error: "slow down" }) }), 2),
        returns: { statuses: [200, 429] },
        warns: warning(
          "callback_failed",
          "onLimited of rateLimit failed: SluiceError: onLimited must return a string, or send a response itself, but returned an object. Set onError to receive every such error.",
        ),
      },
      {
        code: "rateLimit({ policy, onLimited: () => {} })",
        run() {
          vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
          const onLimited = () => void setImmediate(() => vi.advanceTimersByTime(10_000));
          return visitExpress(limited({ onLimited }), 2);
        },
        returns: { statuses: [200, 429] },
        warns: warning(
          "callback_failed",
          "onLimited of rateLimit failed: SluiceError: onLimited did not send a response within 10 s. Return a string, or send a response. Set onError to receive every such error.",
        ),
      },
    ],
  },
];
