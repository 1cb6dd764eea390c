/** Joins scope and key into one text. */
import type { IdempotencyKey } from "./idempotency-store.ts";

/** Joins scope and key. The length of the scope shows where it ends, so no two pairs give the same text. */
export function joinKey({ scope, key }: IdempotencyKey): string {
  return `${scope.length}:${scope}${key}`;
}
