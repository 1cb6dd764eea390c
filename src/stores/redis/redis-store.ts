/** A store in Redis or Valkey: exact for all processes that share it, one round trip for all calls of one tick. */

import { rejectDisposed, SluiceError } from "../../base/errors.ts";
import { checkOptions, checkWhole } from "../../base/options.ts";
import { parseDuration } from "../../base/rate.ts";
import { shared } from "../../base/shared-state.ts";
import type { Charge, Group } from "../../core/charge.ts";
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision, Inspection } from "../../core/decision.ts";
import type { CallState, Store } from "../../core/store.ts";
import { describeState } from "../../holds/with-holds.ts";
import { checkKeyOptions, KEY_OPTIONS, type KeyOptions, keyTag, storedKey } from "../stored-key.ts";
import { Batches } from "./batches.ts";
import { hashSlot } from "./hash-slot.ts";
import type { Action, Step, StoredValue } from "./job.ts";
import { checkKeyPrefix, type KeyPrefixOptions } from "./key-prefix.ts";
import { type Connection, connectionTo, type RedisClient } from "./redis-client.ts";

/** Options of `redisStore` and `upstashStore`. */
export interface RedisStoreOptions extends KeyOptions, KeyPrefixOptions {
  /** Minimum time to live of stored values, in ms or as text such as `"1h"`. It never shortens a TTL. Default: 0. */
  ttlMs?: number | string;
}

/** A store in Redis. */
export interface RedisStore extends Store {
  /** Decisions are exact. */
  readonly consistency: "exact";
  /** Returns the hash slot of the key. */
  shardOf(key: string): number;
}

/** Creates a store in Redis or Valkey. You connect the client and close it yourself. */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): RedisStore {
  return createRedisStore("redisStore", client, connectionTo, options);
}

/** The names of `RedisStoreOptions`. */
export const REDIS_OPTIONS: readonly string[] = ["ttlMs", "keyPrefix", ...KEY_OPTIONS];

/** Creates a store on any connection. All stores on one client share its batches. */
export function createRedisStore<Client extends object>(
  name: string,
  client: Client,
  connect: (client: Client) => Connection,
  options: RedisStoreOptions,
): RedisStore {
  const ttlMs = checkRedisOptions(name, options);
  const keyPrefix = checkKeyPrefix(options);
  let known = clients.get(client);
  if (!known) {
    const connection = connect(client);
    clients.set(client, (known = { connection, batches: new Batches(connection) }));
  }
  return new ScriptStore({ name, ...known, keyOptions: options, keyPrefix, ttlMs });
}

const clients = /* @__PURE__ */ shared(
  "redisClients",
  () => new WeakMap<object, { connection: Connection; batches: Batches }>(),
);

/** Throws if an option is invalid, and returns `ttlMs` as a number. */
function checkRedisOptions(name: string, options: RedisStoreOptions): number {
  if (Object.hasOwn(options ?? {}, "policy")) {
    throw new SluiceError(
      "unknown-option",
      `${name}() does not take a policy. Use createLimiter({ policy, store: ${name}(client) }).`,
      { option: "policy", expected: `createLimiter({ policy, store: ${name}(client) })` },
    );
  }
  checkOptions(name, options, REDIS_OPTIONS);
  const { ttlMs = 0 } = options;
  checkKeyOptions(options);
  return checkWhole("ttlMs", parseDuration("ttlMs", ttlMs), 0, 2 ** 51);
}

interface ScriptStoreOptions {
  /** The name of the function that users call, for errors. */
  readonly name: string;
  readonly connection: Connection;
  readonly batches: Batches;
  readonly keyOptions: KeyOptions;
  readonly keyPrefix: string;
  readonly ttlMs: number;
}

/** A charge, or a reset or inspect of its bucket. */
type ActionCharge = Omit<Charge, "mode"> & { readonly mode: Action };

class ScriptStore implements RedisStore {
  readonly consistency = "exact";
  readonly kind: string;
  readonly warning: string | undefined;
  private readonly name: string;
  private readonly connection: Connection;
  private readonly batches: Batches;
  private readonly keyOptions: KeyOptions;
  private readonly keyPrefix: string;
  private readonly ttlMs: number;
  private disposed = false;

  constructor({ name, connection, batches, keyOptions, keyPrefix, ttlMs }: ScriptStoreOptions) {
    this.name = name;
    this.kind = name.replace("Store", "");
    this.connection = connection;
    this.batches = batches;
    this.keyOptions = keyOptions;
    this.keyPrefix = keyPrefix;
    this.ttlMs = ttlMs;
    this.warning = connection.warning;
  }

  apply(groups: readonly Group[], callState?: CallState): Promise<Decision[][]> {
    // A single group is the common case and needs only one promise.
    if (groups.length === 1) return this.run(groups[0] as Group, callState, (decisions) => [decisions]);
    return Promise.all(groups.map((group) => this.run(group, callState, (decisions) => decisions)));
  }

  async inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    return this.run([{ policy, key, cost: 0, mode: "inspect" }], undefined, ([decision], stored) => {
      const { limit, remaining, resetAfterMs } = decision as Decision;
      const found = resetAfterMs > 0;
      const numbers = { policy: policy.name, found, limit, remaining, resetAfterMs };
      return {
        ...(stored?.state ? describeState(stored.state, policy, stored.now as number) : numbers),
        key,
        storedKey: this.connection.keyPrefix + this.keyPrefix + storedKey(keyTag(key, this.keyOptions), policy.id),
        ttlMs: found && stored ? stored.ttlMs : null,
        raw: found && stored ? stored.raw : null,
      };
    });
  }

  shardOf(key: string): number {
    return this.connection.isCluster ? hashSlot(keyTag(key, this.keyOptions)) : 0;
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  /** Queues a group. Resolves with what `read` returns for its reply. */
  private run<T>(
    group: readonly ActionCharge[],
    callState: CallState | undefined,
    read: (decisions: Decision[], stored: StoredValue | undefined) => T,
  ): Promise<T> {
    // Errors thrown in here reject the promise.
    return new Promise((resolve, reject) => {
      if (this.disposed) rejectDisposed(this.name);
      let slot = 0;
      const steps = group.map((charge, i): Step => {
        const { policy, key, cost, mode, grantEndsAt, hold } = charge;
        const tag = keyTag(key, this.keyOptions);
        if (this.connection.isCluster) {
          const ownSlot = hashSlot(tag);
          if (i > 0 && ownSlot !== slot) {
            throw new SluiceError("cross-shard", "All keys of a group must be in the same slot of the Redis Cluster.", {
              option: "group",
              expected: "keys of one cluster slot",
            });
          }
          slot = ownSlot;
        }
        // Not a spread: one hidden class for all steps.
        const name = this.keyPrefix + storedKey(tag, policy.id);
        return { policy, key, cost, mode, grantEndsAt, hold, storedKey: name, ttlMs: this.ttlMs };
      });
      this.batches.add({
        steps,
        slot,
        callState,
        resolve: (decisions, stored) => resolve(read(decisions, stored)),
        reject,
      });
    });
  }
}
