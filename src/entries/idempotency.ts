/** `sluice/idempotency`: stores for responses that are replayed to retries with the same idempotency key. */
export type {
  BeginResult,
  IdempotencyClaim,
  IdempotencyKey,
  IdempotencyStore,
  StoredResponse,
} from "../idempotency/idempotency-store.ts";
export {
  type MemoryIdempotencyStore,
  type MemoryIdempotencyStoreOptions,
  memoryIdempotencyStore,
} from "../idempotency/memory-store.ts";
export type { RequestIdempotency } from "../middleware/idempotency/current.ts";
export type { IdempotencyOptions } from "../middleware/idempotency/options.ts";
