/** An idempotency store in a map, whose parts a mutation can replace. */
import type { Clock } from "sluice";
import type { IdempotencyKey, IdempotencyStore, StoredResponse } from "sluice/idempotency";
import { checkClaim, checkDuration, checkId, checkKey, checkResponse } from "../../src/idempotency/check-input.ts";
import * as steps from "../../src/idempotency/entry.ts";
import { joinKey } from "../../src/idempotency/join-key.ts";
import { decodeResponse, encodeResponse } from "../../src/idempotency/response-text.ts";

type Entry = steps.Entry<string>;

/** One known bug. */
export interface Mutation {
  begin?: typeof steps.begin<string>;
  read?: typeof steps.read<string>;
  renew?: typeof steps.renew<string>;
  complete?: typeof steps.complete<string>;
  release?: typeof steps.release<string>;
  nameOf?(key: IdempotencyKey): string;
  /** Whether something is awaited between the read and the write. */
  isRacy?: boolean;
  /** The TTL that is used instead of the requested one. */
  ttlMs?(ttlMs: number, entry: Entry): number;
  encode?(response: StoredResponse): string;
  decode?(text: string): StoredResponse;
  /** Whether input is not checked. */
  isUnchecked?: boolean;
}

/** Creates a store, correct without a mutation. */
export function toyStore(clock: Clock, mutation: Mutation = {}): IdempotencyStore {
  const { begin, read, renew, complete, release } = { ...steps, ...mutation };
  const { nameOf = joinKey, encode = encodeResponse, decode = decodeResponse, isUnchecked, isRacy } = mutation;
  const { ttlMs: ttlOf = (ttlMs) => ttlMs } = mutation;
  const slots = new Map<string, { entry: Entry; expiresAt: number }>();
  const check = (run: () => void) => {
    if (!isUnchecked) run();
  };
  const step = async <Result>(
    key: IdempotencyKey,
    take: (entry: Entry | undefined, now: number) => steps.Step<Result, string>,
  ): Promise<Result> => {
    const name = nameOf(key);
    const now = clock.now();
    const found = slots.get(name);
    const { result, write } = take(found && found.expiresAt > now ? found.entry : undefined, now);
    if (isRacy) await Promise.resolve();
    if (write === null) slots.delete(name);
    else if (write) slots.set(name, { entry: write.entry, expiresAt: now + ttlOf(write.ttlMs, write.entry) });
    return result;
  };
  return {
    async begin(claim) {
      check(() => checkClaim(claim));
      return step(claim, (entry, now) => begin(entry, claim, now));
    },
    async read(key, fingerprint) {
      check(() => {
        checkKey(key);
        checkId("fingerprint", fingerprint);
      });
      const text = await step(key, (entry) => read(entry, fingerprint));
      return text === undefined ? undefined : decode(text);
    },
    async renew(key, owner, leaseMs) {
      check(() => {
        checkKey(key);
        checkId("owner", owner);
        checkDuration("leaseMs", leaseMs);
      });
      return step(key, (entry, now) => renew(entry, owner, leaseMs, now));
    },
    async complete(key, owner, response, ttlMs) {
      check(() => {
        checkKey(key);
        checkId("owner", owner);
        checkResponse(response);
        checkDuration("ttlMs", ttlMs);
      });
      const text = encode(response);
      return step(key, (entry) => complete(entry, owner, text, ttlMs));
    },
    async release(key, owner) {
      check(() => {
        checkKey(key);
        checkId("owner", owner);
      });
      await step(key, (entry) => release(entry, owner));
    },
  };
}
