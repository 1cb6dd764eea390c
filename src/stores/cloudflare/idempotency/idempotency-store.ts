/** Idempotent responses in Durable Objects: one object per scope, so the requests of one client share no object with others. */
import { optionError, SluiceError } from "../../../base/errors.ts";
import { checkClaim, checkDuration, checkId, checkKey, checkResponse } from "../../../idempotency/check-input.ts";
import { checkNameOptions, type EntryNameOptions, entryName, scopeName } from "../../../idempotency/entry-name.ts";
import type {
  BeginResult,
  IdempotencyClaim,
  IdempotencyKey,
  IdempotencyStore,
  StoredResponse,
} from "../../../idempotency/idempotency-store.ts";
import { decodeResponse, encodeResponse } from "../../../idempotency/response-text.ts";
import { type DurableObjectNamespaceLike, hasMethods } from "../platform.ts";
import type { IdempotencyObject } from "./idempotency-do.ts";
import { checkReply, PROTOCOL_VERSION } from "./wire.ts";

/** Options of `durableObjectIdempotencyStore`. */
export interface DurableObjectIdempotencyStoreOptions extends EntryNameOptions {}

/** Creates an idempotency store in the Durable Objects of a namespace whose class is `IdempotencyDO`. */
export function durableObjectIdempotencyStore(
  namespace: DurableObjectNamespaceLike,
  options: DurableObjectIdempotencyStoreOptions = {},
): IdempotencyStore {
  if (!hasMethods(namespace, ["idFromName", "get"])) {
    const expected =
      "a Durable Object namespace, such as env.IDEMPOTENCY with a binding of that name in wrangler.jsonc";
    throw optionError("invalid-option", "namespace", expected, namespace);
  }
  checkNameOptions("durableObjectIdempotencyStore", options);
  return new DurableObjectIdempotencyStore(namespace, options);
}

type Method = "begin" | "read" | "renew" | "complete" | "release";
type Fields<M extends Method> = Omit<Parameters<IdempotencyObject[M]>[0], "version" | "entry">;

class DurableObjectIdempotencyStore implements IdempotencyStore {
  /** As that of Durable Objects with buckets: an object may be far away, or start. */
  readonly deadlineMs = 1000;
  readonly failsPerScope = true;
  private readonly namespace: DurableObjectNamespaceLike;
  private readonly options: EntryNameOptions;

  constructor(namespace: DurableObjectNamespaceLike, options: EntryNameOptions) {
    this.namespace = namespace;
    this.options = options;
  }

  async begin(claim: IdempotencyClaim): Promise<BeginResult> {
    checkClaim(claim);
    const { owner, fingerprint, leaseMs, ttlMs } = claim;
    const { version: _, ...begun } = await this.call("begin", claim, { owner, fingerprint, leaseMs, ttlMs });
    return begun;
  }

  async read(key: IdempotencyKey, fingerprint: string): Promise<StoredResponse | undefined> {
    checkKey(key);
    checkId("fingerprint", fingerprint);
    const { response } = await this.call("read", key, { fingerprint });
    return response === null ? undefined : decodeResponse(response);
  }

  async renew(key: IdempotencyKey, owner: string, leaseMs: number): Promise<boolean> {
    checkKey(key);
    checkId("owner", owner);
    checkDuration("leaseMs", leaseMs);
    return (await this.call("renew", key, { owner, leaseMs })).held;
  }

  async complete(key: IdempotencyKey, owner: string, response: StoredResponse, ttlMs: number): Promise<boolean> {
    checkKey(key);
    checkId("owner", owner);
    checkResponse(response);
    checkDuration("ttlMs", ttlMs);
    return (await this.call("complete", key, { owner, response: encodeResponse(response), ttlMs })).held;
  }

  async release(key: IdempotencyKey, owner: string): Promise<void> {
    checkKey(key);
    checkId("owner", owner);
    await this.call("release", key, { owner });
  }

  /** Calls a method of the scope's object by RPC. */
  private async call<M extends Method>(
    method: M,
    key: IdempotencyKey,
    fields: Fields<M>,
  ): Promise<Awaited<ReturnType<IdempotencyObject[M]>>> {
    const call = { version: PROTOCOL_VERSION, entry: entryName(key, this.options), ...fields };
    try {
      const id = this.namespace.idFromName(scopeName(key.scope, this.options));
      const object = this.namespace.get(id as never) as Partial<Record<M, (call: object) => Promise<never>>>;
      if (!object[method]) {
        throw new SluiceError(
          "unsupported",
          "durableObjectIdempotencyStore needs a compatibility date of 2024-04-03 or later, because it calls the object by RPC. Set compatibility_date in wrangler.jsonc.",
          { option: "namespace", expected: "a namespace whose objects can be called by RPC" },
        );
      }
      return checkReply(await object[method](call));
    } catch (cause) {
      if (cause instanceof SluiceError) throw cause;
      throw failure(cause);
    }
  }
}

function failure(cause: unknown): SluiceError {
  if (/does not implement|not support RPC|no such method/i.test(String(cause))) {
    const expected = "a namespace whose class is IdempotencyDO of sluice/cloudflare, or extends it";
    return Object.assign(optionError("invalid-option", "namespace", expected), { cause });
  }
  return new SluiceError(
    "store-unavailable",
    "The Durable Object of the idempotency store failed. See the cause of this error.",
    {
      option: "store",
      expected: "a reply of the Durable Object",
      cause,
    },
  );
}
