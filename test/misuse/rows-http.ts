/** Mistakes in calls of `consumeAll`, of the functions of `sluice/http`, and of the WebSocket guard. */
import { consumeAll, memoryRateLimiter, tokenBucket } from "sluice";
import { clientKey, rateLimitHeaders, tooManyRequests } from "sluice/http";
import { createGuard, jsonType } from "sluice/ws";
import { runWithout } from "./project.ts";
import { type Row, see, warning, wrong } from "./row.ts";

const limiter = memoryRateLimiter("5/s");
const RESOLVED =
  "policies must be the resolved policies of a limiter: limiter.getPolicies?.() ?? limiter.getPolicy(), but received";

export const httpRows: readonly Row[] = [
  {
    number: 56,
    what: "limiters without keys in consumeAll",
    before: "D",
    grade: "A",
    cases: [
      {
        code: "consumeAll([byAddress, byUser])",
        run: () => consumeAll(wrong([limiter, limiter])),
        throws: see(
          "invalid-option",
          "consumeAll() takes { limiter, key } for each limiter. For one key and several limiters, use combine(limiters).",
        ),
      },
    ],
  },
  {
    number: 57,
    what: "an unresolved policy, or a decision that was not awaited, for headers",
    before: "D",
    grade: "A",
    cases: [
      {
        code: 'rateLimitHeaders(decision, tokenBucket("5/s"))',
        run: () => rateLimitHeaders(limiter.consumeSync("k"), wrong(tokenBucket("5/s"))),
        throws: see("invalid-option", `${RESOLVED} an object.`),
      },
      {
        code: 'rateLimitHeaders(decision, "5/s")',
        run: () => rateLimitHeaders(limiter.consumeSync("k"), wrong("5/s")),
        throws: see("invalid-option", `${RESOLVED} "5/s".`),
      },
      {
        code: "rateLimitHeaders(limiter.consume(key), limiter.getPolicy())",
        run: () => rateLimitHeaders(wrong(limiter.consume("k")), limiter.getPolicy()),
        throws: see(
          "invalid-option",
          "decision must be a decision: await limiter.consume(key) first, but received an object.",
        ),
      },
    ],
  },
  {
    number: 58,
    what: "a 429 for an allowed decision",
    before: "C",
    grade: "A",
    cases: [
      {
        code: "tooManyRequests(allowed, limiter.getPolicy())",
        run: () => tooManyRequests(wrong(memoryRateLimiter("5/s").consumeSync("k")), limiter.getPolicy()),
        throws: see(
          "invalid-option",
          "decision must be a denied decision (check decision.allowed first), but received an object.",
        ),
      },
      {
        code: `import { memoryRateLimiter } from "sluice";
import { tooManyRequests } from "sluice/http";
const limiter = memoryRateLimiter("1/s");
tooManyRequests(await limiter.consume("k"), limiter.getPolicy());`,
        diagnostic: /^error TS2379: Argument of type 'Decision' is not assignable to parameter of type 'Denied'/,
      },
    ],
  },
  {
    number: 59,
    what: "an Express request for clientKey",
    before: "C",
    grade: "A",
    cases: [
      {
        code: "clientKey(request)",
        run: () => clientKey(wrong({ socket: { remoteAddress: "192.0.2.1" }, headers: {}, ip: "192.0.2.1" })),
        throws: see(
          "invalid-option",
          "request must be { peer, headers }, such as { peer: request.socket.remoteAddress, headers: request.headers }, but received an object.",
        ),
      },
    ],
  },
  {
    number: 60,
    what: "a limiter as the limits of a guard",
    before: "A",
    grade: "A",
    cases: [
      {
        code: "createGuard({ limits: limiter })",
        run: () => createGuard({ limits: wrong(limiter) }),
        throws: see("invalid-option", "limits must be an object such as { limiter }, but received the limiter itself."),
      },
    ],
  },
  {
    number: 61,
    what: "typeOf without types",
    before: "B",
    grade: "A",
    cases: [
      {
        code: "createGuard({ limits, typeOf: jsonType })",
        run: () => createGuard(wrong({ limits: [{ limiter }], typeOf: jsonType })),
        throws: see(
          "invalid-option",
          'typeOf needs types: an array of the known types, or "any". With "any", a client gets a bucket for every type that it invents.',
        ),
      },
    ],
  },
  {
    number: 63,
    what: "identity: { jwt } without the package jose",
    before: "B+",
    grade: "A",
    cases: [
      {
        // The warning is emitted before any request.
        code: 'rateLimit({ policy, identity: { jwt: { algorithms: ["HS256"], secret } } })',
        run: () =>
          runWithout(
            "jose",
            `import { rateLimit } from "sluice/node";
             process.on("warning", ({ code, message }) => console.log(code + ": " + message));
             rateLimit({ policy: "1/s", identity: { jwt: { algorithms: ["HS256"], secret: "x".repeat(32) } } });`,
          ),
        returns: `SLUICE_MISUSE: ${warning("misuse", "jwt requires the package jose. Run npm install jose, or pass the module as jwt.jose.")}`,
      },
    ],
  },
];
