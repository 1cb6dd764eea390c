/** Idempotent responses in Upstash Redis over REST, by the script of the Redis store. */
import { checkNameOptions } from "../../idempotency/entry-name.ts";
import type { IdempotencyStore } from "../../idempotency/idempotency-store.ts";
import { type RedisIdempotencyStoreOptions, ScriptIdempotencyStore } from "../redis/idempotency/idempotency-store.ts";
import { connectionTo, type UpstashClient } from "./upstash-store.ts";

/** Creates an idempotency store in Upstash Redis. The client may retry: every step can be repeated. */
export function upstashIdempotencyStore(
  redis: UpstashClient,
  options: RedisIdempotencyStoreOptions = {},
): IdempotencyStore {
  checkNameOptions("upstashIdempotencyStore", options, ["keyPrefix"]);
  return new ScriptIdempotencyStore(connectionTo(redis), options);
}
