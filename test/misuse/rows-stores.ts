/** Mistakes with stores: clients that are not connected, wrong clients, names, and Workers bindings. */
import { createLimiter, fixedWindow, memoryStore, tokenBucket } from "sluice";
import { bindingRateLimiter, durableObjectRateLimiter, kvRateLimiter } from "sluice/cloudflare";
import { rateLimit } from "sluice/express";
import { redisRateLimiter } from "sluice/redis";
import { upstashRateLimiter } from "sluice/upstash";
import { visitExpress } from "./apps.ts";
import { binding, closedClient, kvNamespace, unconnectedClient, wrongPortClient } from "./clients.ts";
import { type Case, type Row, see, warning, wrong } from "./row.ts";

const NOT_CONNECTED = "The Redis client is not connected. With node-redis, call await client.connect() first.";
const unavailable = (cause: string): string =>
  warning(
    "store_unavailable",
    `The store is unavailable, so each process limits on its own (onStoreError: "local"). Cause: SluiceError: ${cause} Set onEvent to follow outages.`,
  );
const inRedis = (client: unknown, options: object = {}) => redisRateLimiter(wrong(client), "5/s", wrong(options));
const notAClient = (code: string, client: unknown, received: string): Case => ({
  code,
  run: () => inRedis(client),
  throws: see(
    "invalid-option",
    `client must be an ioredis, iovalkey or node-redis client (for @upstash/redis, use sluice/upstash), but received ${received}.`,
  ),
});
const inPolicy = (option: string, hint: string): Case => ({
  code: `redisRateLimiter(client, "5/s", { ${option}: "my-app" })`,
  run: () => inRedis(unconnectedClient(), { [option]: "my-app" }),
  throws: see("unknown-option", `"${option}" is not an option of redisRateLimiter. ${hint}`),
});
const BELONGS = 'It belongs to the policy: tokenBucket("5/s", { name: "login", prefix: "my-app" }).';

export const storeRows: readonly Row[] = [
  {
    number: 46,
    what: "node-redis without await client.connect()",
    before: "F",
    grade: "A",
    cases: [
      {
        code: "rateLimit({ limiter: redisRateLimiter(createClient(), policy) })",
        run: () => visitExpress(rateLimit({ limiter: inRedis(unconnectedClient()) }), 3),
        returns: { statuses: [200, 200, 200] },
        warns: unavailable(NOT_CONNECTED),
      },
    ],
  },
  {
    number: 47,
    what: "a closed client, or the wrong port",
    before: "F",
    grade: "A",
    cases: [
      {
        code: "redisRateLimiter(closedClient, policy).consume(key)",
        run: () => inRedis(closedClient()).consume("k"),
        warns: unavailable(NOT_CONNECTED),
      },
      {
        code: "redisRateLimiter(new Redis({ port: 1 }), policy).consume(key)",
        async run() {
          const limiter = inRedis(wrongPortClient());
          for (let i = 0; i < 5; i++) await limiter.consume("k");
        },
        warns: unavailable(NOT_CONNECTED),
      },
    ],
  },
  {
    number: 48,
    what: 'a client that is not connected, with onStoreError: "throw"',
    before: "A",
    grade: "A",
    cases: [unconnectedClient, closedClient].map((client) => ({
      code: `redisRateLimiter(${client.name}, policy, { onStoreError: "throw" }).consume(key)`,
      run: () => inRedis(client(), { onStoreError: "throw" }).consume("k"),
      throws: see("store-unavailable", NOT_CONNECTED),
    })),
  },
  {
    number: 50,
    what: "a URL, a Map or the policy as client",
    before: "A",
    grade: "A",
    cases: [
      notAClient('redisRateLimiter("redis://localhost", policy)', "redis://localhost", '"redis://localhost"'),
      notAClient("redisRateLimiter(new Map(), policy)", new Map(), "an object"),
      notAClient('redisRateLimiter("5/s", client)', "5/s", '"5/s"'),
    ],
  },
  {
    number: 51,
    what: "a client of ioredis for Upstash",
    before: "A",
    grade: "A",
    cases: [
      {
        code: "upstashRateLimiter(ioredis, policy)",
        run: () => upstashRateLimiter(wrong(closedClient()), "5/s"),
        throws: see(
          "invalid-option",
          "redis must be a client of @upstash/redis (for other Redis clients, use sluice/redis), but received an object.",
        ),
      },
    ],
  },
  {
    number: 52,
    what: "prefix beside the client",
    before: "B",
    grade: "A",
    cases: [
      inPolicy("prefix", BELONGS),
      inPolicy("name", BELONGS),
      {
        code: 'redisRateLimiter(client, policy, { keyPrefix: "{my-app}" })',
        run: () => redisRateLimiter(closedClient(), "5/s", { keyPrefix: "{my-app}" }),
        throws: see(
          "invalid-option",
          'keyPrefix must be text of 1 to 64 printable ASCII characters without spaces and braces, such as "my-app:", but received "{my-app}".',
        ),
      },
    ],
  },
  {
    number: 53,
    what: 'onStoreError: "fail-open"',
    before: "A",
    grade: "A",
    cases: [
      {
        code: 'redisRateLimiter(client, policy, { onStoreError: "fail-open" })',
        run: () => inRedis(unconnectedClient(), { onStoreError: "fail-open" }),
        throws: see(
          "invalid-option",
          'onStoreError must be one of local, open, closed, throw, but received "fail-open".',
        ),
      },
    ],
  },
  {
    number: 54,
    what: "two policies with one name on one client",
    before: "A",
    grade: "A",
    cases: [
      {
        code: 'redisRateLimiter(client, tokenBucket("5/s", { name: "api" })) and ... "6/s", { name: "api" }',
        run() {
          const client = unconnectedClient();
          redisRateLimiter(client, tokenBucket("5/s", { name: "api" }));
          redisRateLimiter(client, tokenBucket("6/s", { name: "api" }));
        },
        throws: see(
          "policy-conflict",
          'Another policy on this store is named "api". Use another name, or set share: true on every plan with this name.',
        ),
      },
    ],
  },
  {
    number: 55,
    what: "an unnamed policy on two routes of one client",
    before: "C",
    grade: "A",
    cases: [
      {
        code: 'app.get("/a", rateLimit({ limiter: createLimiter({ policy: "99/s", store }) })); app.get("/b", the same)',
        run() {
          const store = memoryStore();
          const [first, second] = [0, 1].map(() => rateLimit({ limiter: createLimiter({ policy: "99/s", store }) }));
          return visitExpress([first, second], 3);
        },
        returns: { statuses: [200, 200, 200] },
        warns: warning(
          "misuse",
          'Two limiters with the policy "99/s" on one store share their buckets, because it has no name. Give each policy a name, such as tokenBucket("5/s", { name: "login" }), or pass the same limiter to each rateLimit.',
        ),
      },
    ],
  },
  {
    number: 62,
    what: "a policy that a Cloudflare store can't count, or no binding",
    before: "A",
    grade: "A",
    cases: [
      {
        code: 'kvRateLimiter(env.KV, tokenBucket("5/s"))',
        run: () => kvRateLimiter(wrong(kvNamespace), tokenBucket("5/s")),
        throws: see(
          "unsupported",
          'algorithm must be fixed-window, sliding-window or sliding-log on KV, but received "token-bucket".',
        ),
      },
      {
        code: 'bindingRateLimiter(env.RL, fixedWindow("5/30s"))',
        run: () => bindingRateLimiter(binding, fixedWindow("5/30s")),
        throws: see("unsupported", "windowMs must be 10000 or 60000 for a rate limit binding, but received 30000."),
      },
      {
        code: 'durableObjectRateLimiter(undefined, "5/s")',
        run: () => durableObjectRateLimiter(wrong(undefined), "5/s"),
        throws: see(
          "invalid-option",
          "namespace must be a Durable Object namespace, such as env.RATE_LIMITER with a binding of that name in wrangler.jsonc, but received undefined.",
        ),
      },
    ],
  },
  {
    number: 73,
    what: "20 000 plans that share a name on one store",
    before: "D",
    grade: "A",
    cases: [
      {
        code: 'createLimiter({ policy: { capacity, tokensPerSecond, name: "plan", share: true }, store }) // 20 000 times',
        run() {
          const store = memoryStore();
          const limiters = Array.from({ length: 20_000 }, (_, i) => {
            const policy = tokenBucket({ capacity: 10 + i, tokensPerSecond: 10 + i, name: "plan", share: true });
            return createLimiter({ policy, store });
          });
          return limiters.length;
        },
        returns: 20_000,
      },
    ],
  },
];
