/** A store of idempotent responses that records what it stores, and takes a while. */
import { type IdempotencyStore, memoryIdempotencyStore, type StoredResponse } from "sluice/idempotency";

/** The options of `idempotent` on any server, and the responses that were stored. */
export function storing() {
  const stored: StoredResponse[] = [];
  const memory = memoryIdempotencyStore();
  const store: IdempotencyStore = {
    isLocal: true,
    begin: (claim) => memory.begin(claim),
    read: (...args) => memory.read(...args),
    renew: (...args) => memory.renew(...args),
    release: (...args) => memory.release(...args),
    async complete(key, owner, response, ttlMs) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      stored.push(response);
      return memory.complete(key, owner, response, ttlMs);
    },
  };
  return { stored, options: { store, scope: () => "ada" } };
}

let requests = 0;

/** The settings of a request with a new key. */
export function newRequest() {
  return { method: "POST", headers: { "Idempotency-Key": `key-${++requests}` } };
}

/** The text of a stored body. */
export function textOf(response: StoredResponse | undefined): string {
  return new TextDecoder().decode(response?.body ?? undefined);
}
