/** Mistakes in the options of `rateLimit`, which are rejected before the first request. */
import { memoryRateLimiter, memoryStore } from "sluice";
import { rateLimit } from "sluice/express";
import { type Case, type Row, see, wrong } from "./row.ts";

type Code = Parameters<typeof see>[0];

const options = (code: string, given: unknown, message: string, error: Code = "invalid-option"): Case => ({
  code: `rateLimit(${code})`,
  run: () => rateLimit(wrong(given)),
  throws: see(error, message),
});
const foreign = (code: string, given: object, message: string): Case => options(code, given, message, "unknown-option");
const ONE_OF =
  'rateLimit requires exactly one of policy, policies, limiter, limits, rules, such as { policy: "100/m" }';
const policy = "100/m";

export const middlewareRows: readonly Row[] = [
  {
    number: 14,
    what: "the options of express-rate-limit",
    before: "A",
    grade: "A",
    cases: [
      foreign(
        "{ windowMs: 60_000, limit: 100 }",
        { windowMs: 60_000, limit: 100 },
        '"windowMs" is not an option of rateLimit. Use policy instead, such as policy: "100/m".',
      ),
    ],
  },
  {
    number: 15,
    what: "keyGenerator",
    before: "A",
    grade: "A",
    cases: [
      foreign(
        "{ policy, keyGenerator }",
        { policy, keyGenerator: () => "k" },
        '"keyGenerator" is not an option of rateLimit. Use key instead.',
      ),
    ],
  },
  {
    number: 16,
    what: "a store in place of a limiter",
    before: "A",
    grade: "A",
    cases: [
      foreign(
        "{ policy, store: memoryStore() }",
        { policy, store: memoryStore() },
        '"store" is not an option of rateLimit. Pass a limiter that uses the store instead: limiter: createLimiter({ policy, store }).',
      ),
    ],
  },
  {
    number: 17,
    what: "message",
    before: "B",
    grade: "A",
    cases: [
      foreign(
        '{ policy, message: "slow" }',
        { policy, message: "slow" },
        '"message" is not an option of rateLimit. Use onLimited instead, which writes the body of rejected requests.',
      ),
    ],
  },
  {
    number: 19,
    what: "limiter and policy",
    before: "A-",
    grade: "A",
    reason: "TypeScript accepts it: as a union of four shapes, every other mistake would get a longer diagnostic.",
    cases: [
      options(
        "{ policy, limiter }",
        { policy, limiter: memoryRateLimiter("1/s") },
        `${ONE_OF}, but received policy and limiter.`,
      ),
      {
        code: `import { memoryRateLimiter } from "sluice";
import { rateLimit } from "sluice/node";
rateLimit({ policy: "1/s", limiter: memoryRateLimiter("1/s") });`,
        diagnostic: null,
      },
    ],
  },
  {
    number: 20,
    what: "no options",
    before: "A",
    grade: "A",
    cases: [
      options("{}", {}, `${ONE_OF}, but received none of them.`),
      options("", undefined, 'rateLimit requires options, such as { policy: "100/m" }, but received undefined.'),
      options('"100/m"', "100/m", 'rateLimit requires options, such as { policy: "100/m" }, but received "100/m".'),
      {
        code: 'import { rateLimit } from "sluice/node";\nrateLimit("100/m");',
        diagnostic: `error TS2559: Type '"100/m"' has no properties in common with type 'NodeRateLimitOptions<never>'.`,
      },
    ],
  },
  {
    number: 21,
    what: "a function as policy",
    before: "C",
    grade: "A",
    cases: [
      options(
        '{ policy: (request) => "100/m" }',
        { policy: () => "100/m" },
        "policy must be a policy, but received a function. To choose a limit for each request, pass a function as limiter.",
      ),
    ],
  },
  {
    number: 22,
    what: "headers: true",
    before: "D",
    grade: "A",
    cases: [
      options(
        "{ policy, headers: true }",
        { policy, headers: true },
        'headers must be "draft-8", "draft-7", "draft-6", "legacy", a list of these, { mode } with further options, or false for no fields, but received true.',
      ),
    ],
  },
  {
    number: 23,
    what: "two drafts with the same field names",
    before: "A",
    grade: "A",
    cases: [
      options(
        '{ policy, headers: ["draft-8", "draft-7"] }',
        { policy, headers: ["draft-8", "draft-7"] },
        "headers can't combine draft-8 with draft-7 or draft-6, because they use the same field names. Keep one of them.",
      ),
    ],
  },
  {
    number: 24,
    what: "trustedProxies: true",
    before: "A",
    grade: "A",
    cases: [
      options(
        "{ policy, identity: { trustedProxies: true } }",
        { policy, identity: { trustedProxies: true } },
        'trustedProxies must be a list of addresses and ranges such as ["10.0.0.0/8"], or the number of proxies, from 1 to 64, but received true.',
      ),
    ],
  },
  {
    number: 25,
    what: "Express's names of ranges",
    before: "B",
    grade: "A",
    cases: [
      ["loopback", '"127.0.0.0/8" and "::1"'],
      ["linklocal", '"169.254.0.0/16" and "fe80::/10"'],
      ["uniquelocal", '"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16" and "fc00::/7"'],
    ].map(([name, ranges]) =>
      options(
        `{ policy, identity: { trustedProxies: ["${name}"] } }`,
        { policy, identity: { trustedProxies: [name] } },
        `trustedProxies must be IP addresses and ranges such as 10.0.0.0/8 or 2001:db8::/32. For Express's "${name}", write ${ranges}.`,
      ),
    ),
  },
  {
    number: 26,
    what: "nginx without the proxies",
    before: "A",
    grade: "A",
    cases: [
      options(
        '{ policy, identity: "nginx" }',
        { policy, identity: "nginx" },
        'preset "nginx" requires trustedProxies: the addresses of the proxies, such as ["10.0.0.0/8"], or their number.',
      ),
    ],
  },
  {
    number: 27,
    what: "identity and key",
    before: "B+",
    grade: "A",
    cases: [
      options(
        '{ policy, identity: "cloudflare", key }',
        { policy, identity: "cloudflare", key: () => "k" },
        "key and identity can't be combined, because key replaces identity. To use both, call clientKey() of sluice/http inside of key.",
      ),
    ],
  },
  {
    number: 28,
    what: "a word that is not one of the choices",
    before: "A",
    grade: "A",
    cases: [
      options(
        '{ policy, refundIf: "success" }',
        { policy, refundIf: "success" },
        'refundIf must be "failed", "succeeded", "reported" or a function, but received "success".',
      ),
      options(
        '{ policy, mode: "dry-run" }',
        { policy, mode: "dry-run" },
        'mode must be "enforce" or "shadow", but received "dry-run".',
      ),
    ],
  },
  {
    number: 37,
    what: "a store as limiter",
    before: "C",
    grade: "A",
    cases: [
      options(
        "{ limiter: memoryStore() }",
        { limiter: memoryStore() },
        "limiter must be a limiter, but received a store. Pass createLimiter({ policy, store }).",
        "invalid-limiter",
      ),
    ],
  },
];
