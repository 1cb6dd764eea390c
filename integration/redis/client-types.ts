/** Type tests: every client fits without a cast. Checked by tsc, not run. */
import { Redis as Upstash } from "@upstash/redis";
import * as cloudflare from "@upstash/redis/cloudflare";
import * as fastly from "@upstash/redis/fastly";
import * as ioredis5 from "ioredis5";
import * as ioredis6 from "ioredis6";
import * as iovalkey from "iovalkey";
import * as redis4 from "redis4";
import * as redis5 from "redis5";
import * as redis6 from "redis6";
import { redisIdempotencyStore, redisRateLimiter, redisStore } from "sluice/redis";
import { upstashIdempotencyStore, upstashRateLimiter, upstashStore } from "sluice/upstash";

const sentinel = { name: "main", sentinelRootNodes: [{ host: "127.0.0.1", port: 26379 }] };

export const stores = [
  // Created inline.
  redisStore(new ioredis6.Redis()),
  redisStore(new ioredis6.Redis({ keyPrefix: "app:", lazyConnect: true })),
  redisStore(new ioredis6.Redis({ sentinels: [{ host: "127.0.0.1", port: 26379 }], name: "main" })),
  redisStore(new ioredis6.Cluster([{ port: 7000 }])),
  redisStore(new ioredis5.Redis()),
  redisStore(new ioredis5.Redis({ sentinels: [{ host: "127.0.0.1", port: 26379 }], name: "main" })),
  redisStore(new ioredis5.Cluster([{ port: 7000 }])),
  redisStore(new iovalkey.Redis()),
  redisStore(new iovalkey.Redis({ sentinels: [{ host: "127.0.0.1", port: 26379 }], name: "main" })),
  redisStore(new iovalkey.Cluster([{ port: 7000 }])),
  redisStore(redis6.createClient()),
  redisStore(redis6.createClient({ RESP: 3 })),
  redisStore(redis6.createClient({ RESP: 2 })),
  redisStore(redis6.createClientPool()),
  redisStore(redis6.createCluster({ rootNodes: [{ url: "redis://127.0.0.1:7000" }] })),
  redisStore(redis6.createSentinel(sentinel)),
  redisStore(redis5.createClient()),
  redisStore(redis5.createClient({ RESP: 3 })),
  redisStore(redis5.createClientPool()),
  redisStore(redis5.createCluster({ rootNodes: [{ url: "redis://127.0.0.1:7000" }] })),
  redisStore(redis5.createSentinel(sentinel)),
  redisStore(redis4.createClient()),
  redisStore(redis4.createCluster({ rootNodes: [{ url: "redis://127.0.0.1:7000" }] })),
  redisStore(await redis6.createClient().connect()),
  redisStore(await redis5.createClient().connect()),
  redisStore(await redis4.createClient().connect()),
  upstashStore(new Upstash({ url: "", token: "", retry: { retries: 0 } })),
  upstashStore(Upstash.fromEnv({ retry: { retries: 0 } })),
  upstashStore(new cloudflare.Redis({ url: "", token: "", retry: { retries: 0 } })),
  upstashStore(new fastly.Redis({ url: "", token: "", backend: "redis", retry: { retries: 0 } })),
];

/** Declared by the type names of the libraries. */
export function limiters(
  clients: {
    ioredis6: ioredis6.Redis | ioredis6.Cluster;
    ioredis5: ioredis5.Redis | ioredis5.Cluster;
    iovalkey: iovalkey.Redis | iovalkey.Cluster;
    redis6: redis6.RedisClientType | redis6.RedisClusterType | redis6.RedisSentinelType;
    redis5: redis5.RedisClientType | redis5.RedisClusterType | redis5.RedisSentinelType;
    redis4: redis4.RedisClientType | redis4.RedisClusterType;
    // The inferred types include all modules and another type mapping.
    created6: ReturnType<typeof redis6.createClient>;
    created5: ReturnType<typeof redis5.createClient>;
    created4: ReturnType<typeof redis4.createClient>;
  },
  upstash: Upstash | cloudflare.Redis | fastly.Redis,
): unknown {
  const policy = { capacity: 1, tokensPerSecond: 1 };
  const { ioredis6, ioredis5, iovalkey, redis6, redis5, redis4, created6, created5, created4 } = clients;
  return [
    redisRateLimiter(ioredis6, policy),
    redisRateLimiter(ioredis5, policy),
    redisRateLimiter(iovalkey, policy),
    redisRateLimiter(redis6, policy),
    redisRateLimiter(redis5, policy),
    redisRateLimiter(redis4, policy),
    redisRateLimiter(created6, policy),
    redisRateLimiter(created5, policy),
    redisRateLimiter(created4, policy),
    upstashRateLimiter(upstash, policy),
    redisIdempotencyStore(ioredis6),
    redisIdempotencyStore(created6),
    redisIdempotencyStore(redis4),
    upstashIdempotencyStore(upstash),
    // @ts-expect-error a socket client is not a REST client: its methods take other arguments
    upstashRateLimiter(ioredis6, policy),
    // @ts-expect-error a REST client is not a socket client
    redisRateLimiter(upstash, policy),
    // @ts-expect-error an object without the methods
    redisStore({}),
  ];
}
