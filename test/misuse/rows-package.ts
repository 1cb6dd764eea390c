/** Mistakes with imports and TypeScript settings: the messages of Node and of TypeScript. */
import { parsePolicy } from "sluice";
import { expect } from "vitest";
import { failureOf } from "./project.ts";
import type { Row } from "./row.ts";

export const packageRows: readonly Row[] = [
  {
    number: 64,
    what: "a subpath that does not exist",
    before: "B",
    grade: "B",
    reason: "The message is Node's. The table of subpaths is in the docs.",
    cases: [
      {
        code: 'import { rateLimit } from "sluice/restify";',
        run: () => failureOf('import { rateLimit } from "sluice/restify";'),
        returns: expect.stringMatching(
          /^Error \[ERR_PACKAGE_PATH_NOT_EXPORTED\]: Package subpath '\.\/restify' is not defined by "exports" in .*package\.json imported from .*$/,
        ),
      },
      {
        code: 'import { rateLimit } from "sluice/restify";\nrateLimit({});',
        diagnostic: "error TS2307: Cannot find module 'sluice/restify' or its corresponding type declarations.",
      },
    ],
  },
  {
    number: 65,
    what: "rateLimit from the main entry point",
    before: "C",
    grade: "B",
    reason: "The messages are Node's and TypeScript's. An export that only throws would appear in every import list.",
    cases: [
      {
        code: 'import { rateLimit } from "sluice";',
        run: () => failureOf('import { rateLimit } from "sluice";'),
        returns: "SyntaxError: The requested module 'sluice' does not provide an export named 'rateLimit'",
      },
      {
        code: 'import { rateLimit } from "sluice";\nrateLimit({});',
        diagnostic: `error TS2724: '"sluice"' has no exported member named 'rateLimit'. Did you mean 'RateLimiter'?`,
      },
    ],
  },
  {
    number: 66,
    what: 'CommonJS: require("sluice/express")',
    before: "A",
    grade: "A",
    coveredBy: "integration/packaging",
    cases: [],
  },
  {
    number: 67,
    what: "Jest 30 on Node 20",
    before: "D",
    grade: "A",
    coveredBy: "integration/packaging",
    cases: [],
  },
  {
    number: 68,
    what: "module: node16 in a CommonJS project",
    before: "C",
    grade: "A",
    coveredBy: "integration/packaging",
    cases: [],
  },
  {
    number: 69,
    what: "moduleResolution: node10",
    before: "C",
    grade: "A",
    coveredBy: "integration/packaging",
    cases: [],
  },
  {
    number: 70,
    what: "bundler resolution, exactOptionalPropertyTypes and no skipLibCheck",
    before: "A",
    grade: "A",
    cases: [
      {
        code: `import { createLimiter, memoryStore } from "sluice";
import { rateLimitHeaders } from "sluice/http";
import { rateLimit } from "sluice/node";
import { redisRateLimiter } from "sluice/redis";
const limiter = createLimiter({ policy: "1/s", store: memoryStore() });
export const handler = rateLimit({ limiter, onLimited: ({ decision }) => String(decision.retryAfterMs) });
export const fields = rateLimitHeaders(await limiter.consume("k"), limiter.getPolicy());
export { redisRateLimiter };`,
        diagnostic: null,
      },
    ],
  },
  {
    number: 71,
    what: "sluice/express without @types/express and skipLibCheck",
    before: "B",
    grade: "B",
    reason: "The message is TypeScript's. An app that uses Express with TypeScript has @types/express.",
    cases: [
      {
        code: 'import { rateLimit } from "sluice/express";\nrateLimit({ policy: "1/s" });',
        reportedIn: "node_modules/sluice/dist/express.d.ts",
        diagnostic: "error TS2307: Cannot find module 'express' or its corresponding type declarations.",
      },
    ],
  },
  {
    number: 72,
    what: "a rate from the environment",
    before: "C",
    grade: "B",
    reason:
      "TypeScript refuses a plain string, so that literals are checked. RateText names parsePolicy where an editor shows it.",
    cases: [
      {
        code: 'import { tokenBucket } from "sluice";\ntokenBucket(process.env.RATE ?? "5/s");',
        diagnostic: "error TS2769: No overload matches this call.",
      },
      {
        code: 'import { memoryRateLimiter, parsePolicy } from "sluice";\nmemoryRateLimiter(parsePolicy(process.env.RATE ?? "5/s"));',
        diagnostic: null,
      },
      {
        code: 'parsePolicy(process.env.RATE ?? "5/s")',
        run: () => parsePolicy(process.env.SLUICE_MISUSE_RATE ?? "5/s"),
        returns: { algorithm: "token-bucket", capacity: 5, tokensPerSecond: "5/s" },
      },
    ],
  },
];
