/** Idempotent responses in Redis or Valkey: one string per key, one script call per step, by the server's clock. */
import { SluiceError } from "../../../base/errors.ts";
import { checkClaim, checkDuration, checkId, checkKey, checkResponse } from "../../../idempotency/check-input.ts";
import { checkNameOptions, type EntryNameOptions, entryName } from "../../../idempotency/entry-name.ts";
import type {
  BeginResult,
  IdempotencyClaim,
  IdempotencyKey,
  IdempotencyStore,
  StoredResponse,
} from "../../../idempotency/idempotency-store.ts";
import { decodeResponse, encodeResponse, foreignValue } from "../../../idempotency/response-text.ts";
import { checkKeyPrefix, type KeyPrefixOptions } from "../key-prefix.ts";
import { type Connection, connectionTo, type RedisClient } from "../redis-client.ts";
import { callScript } from "../script-call.ts";
import { script, sha } from "./script.ts";

/** Options of `redisIdempotencyStore` and `upstashIdempotencyStore`. */
export interface RedisIdempotencyStoreOptions extends EntryNameOptions, KeyPrefixOptions {}

/** Creates an idempotency store in Redis or Valkey. You connect the client and close it yourself. */
export function redisIdempotencyStore(
  client: RedisClient,
  options: RedisIdempotencyStoreOptions = {},
): IdempotencyStore {
  checkNameOptions("redisIdempotencyStore", options, ["keyPrefix"]);
  return new ScriptIdempotencyStore(connectionTo(client), options);
}

/** A store on any connection. */
export class ScriptIdempotencyStore implements IdempotencyStore {
  private readonly connection: Connection;
  private readonly options: EntryNameOptions;
  private readonly keyPrefix: string;

  constructor(connection: Connection, options: RedisIdempotencyStoreOptions) {
    this.connection = connection;
    this.options = options;
    this.keyPrefix = checkKeyPrefix(options);
  }

  async begin(claim: IdempotencyClaim): Promise<BeginResult> {
    checkClaim(claim);
    const { owner, fingerprint, leaseMs, ttlMs } = claim;
    return parseBegun(await this.call(claim, ["begin", owner, fingerprint, `${leaseMs}`, `${ttlMs}`]));
  }

  async read(key: IdempotencyKey, fingerprint: string): Promise<StoredResponse | undefined> {
    checkKey(key);
    checkId("fingerprint", fingerprint);
    return parseRead(await this.call(key, ["read", fingerprint]));
  }

  async renew(key: IdempotencyKey, owner: string, leaseMs: number): Promise<boolean> {
    checkKey(key);
    checkId("owner", owner);
    checkDuration("leaseMs", leaseMs);
    return isHeld(await this.call(key, ["renew", owner, `${leaseMs}`]));
  }

  async complete(key: IdempotencyKey, owner: string, response: StoredResponse, ttlMs: number): Promise<boolean> {
    checkKey(key);
    checkId("owner", owner);
    checkResponse(response);
    checkDuration("ttlMs", ttlMs);
    return isHeld(await this.call(key, ["complete", owner, `${ttlMs}`, encodeResponse(response)]));
  }

  async release(key: IdempotencyKey, owner: string): Promise<void> {
    checkKey(key);
    checkId("owner", owner);
    isHeld(await this.call(key, ["release", owner]));
  }

  /** Runs the script on one entry. Every step may run twice, so a client that resends commands does no harm. */
  private async call(key: IdempotencyKey, args: string[]): Promise<string> {
    const name = this.keyPrefix + entryName(key, this.options);
    let reply: string;
    try {
      // A client may return buffers.
      reply = String(await callScript(this.connection, { script, sha }, [name], args));
    } catch (cause) {
      if (cause instanceof SluiceError) throw cause;
      throw new SluiceError(
        "store-unavailable",
        "The idempotency store in Redis failed. See the cause of this error.",
        {
          option: "store",
          expected: "a reply of Redis",
          cause,
        },
      );
    }
    if (reply === "i1 foreign") throw foreignValue();
    return reply;
  }
}

const RESPONSE_REPLY = "i1 response\n";

function isHeld(reply: string): boolean {
  if (reply === "i1 held") return true;
  if (reply === "i1 lost") return false;
  throw unknownReply();
}

function parseBegun(reply: string): BeginResult {
  const [version, state, first, second] = reply.split(" ");
  if (version === "i1") {
    const same = first === "1";
    if (state === "started") return { state, attempt: Number(first) };
    if (state === "in-progress") return { state, same, leaseMs: Number(second) };
    if (state === "completed") return { state, same };
  }
  throw unknownReply();
}

function parseRead(reply: string): StoredResponse | undefined {
  if (reply === "i1 none") return undefined;
  if (reply.startsWith(RESPONSE_REPLY)) return decodeResponse(reply.slice(RESPONSE_REPLY.length));
  throw unknownReply();
}

/** A proxy or another build may run another script. */
function unknownReply(): SluiceError {
  return new SluiceError("store-unavailable", "The script of the idempotency store returned an unknown reply.", {
    option: "store",
    expected: "a reply of version i1",
  });
}
