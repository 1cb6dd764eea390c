/** Buckets in Redis: exact for every process that shares it, one round trip for all that is asked in one tick. */
import type { Charge, Group } from "../../core/charge.ts";
import type { CompiledPolicy } from "../../core/compile.ts";
import type { Decision, Inspection } from "../../core/decision.ts";
import { optionError, rejectDisposed } from "../../core/errors.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import { parseDuration } from "../../core/rate.ts";
import type { CallState, Store } from "../../core/store.ts";
import { checkKeyOptions, KEY_OPTIONS, type KeyOptions, storedKey, tagOf } from "../stored-key.ts";
import { Batches } from "./batches.ts";
import { hashSlot } from "./hash-slot.ts";
import type { Action, Step, Stored } from "./job.ts";
import { type Connection, connectionTo, type RedisClient } from "./redis-client.ts";

/** What a Redis store can be told. */
export interface RedisStoreOptions extends KeyOptions {
  /** The shortest time that a value is kept, where the time to full is less. It only lengthens. Default: 0. */
  ttlMs?: number | string;
}

/** A store in Redis. */
export interface RedisStore extends Store {
  readonly consistency: "exact";
  shardOf(key: string): number;
}

/** Keeps buckets in Redis or Valkey, through a client that you connect and close yourself. */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): RedisStore {
  return storeOn("redisStore", client, connectionTo, options);
}

/** The names of all options of a store in Redis. */
export const REDIS_OPTIONS: readonly string[] = ["ttlMs", ...KEY_OPTIONS];

/** A store over any connection. All stores on one client share its batches. */
export function storeOn<Client extends object>(
  where: string,
  client: Client,
  connect: (client: Client) => Connection,
  options: RedisStoreOptions,
): RedisStore {
  const ttlMs = checkRedisOptions(where, options);
  let known = clients.get(client);
  if (!known) {
    const connection = connect(client);
    clients.set(client, (known = { connection, batches: new Batches(connection) }));
  }
  return new Redis(where, known.connection, known.batches, options, ttlMs);
}

const clients = new WeakMap<object, { connection: Connection; batches: Batches }>();

/** Refuses options that are not right, and gives ttlMs as a number. */
function checkRedisOptions(where: string, options: RedisStoreOptions): number {
  if (Object.hasOwn(options ?? {}, "policy")) {
    const expected = `no policy here: createLimiter({ policy, store: ${where}(client) })`;
    throw optionError("unknown-option", "policy", expected);
  }
  checkOptions(where, options, REDIS_OPTIONS);
  const { ttlMs = 0 } = options;
  checkKeyOptions(options);
  return checkWhole("ttlMs", parseDuration("ttlMs", ttlMs), 0, 2 ** 51);
}

class Redis implements RedisStore {
  readonly consistency = "exact";
  /** What users should know about the client, for the limiters on this store to tell. */
  readonly warning: string | undefined;
  /** How users call it. */
  private readonly name: string;
  private readonly connection: Connection;
  private readonly batches: Batches;
  private readonly options: RedisStoreOptions;
  private readonly ttlMs: number;
  private disposed = false;

  constructor(name: string, connection: Connection, batches: Batches, options: RedisStoreOptions, ttlMs: number) {
    this.name = name;
    this.connection = connection;
    this.batches = batches;
    this.options = options;
    this.ttlMs = ttlMs;
    this.warning = connection.warning;
  }

  apply(groups: readonly Group[], waiting?: CallState): Promise<Decision[][]> {
    // One group is the common case, and pays for one promise.
    if (groups.length === 1) return this.ask(groups[0] as Group, waiting, (decisions) => [decisions]);
    return Promise.all(groups.map((group) => this.ask(group, waiting, (decisions) => decisions)));
  }

  async reset(policy: CompiledPolicy, key: string): Promise<void> {
    await this.ask([{ policy, key, cost: 0, mode: "reset" }], undefined, () => undefined);
  }

  async inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    return this.ask([{ policy, key, cost: 0, mode: "inspect" }], undefined, ([decision], stored) => {
      const { limit, remaining, resetAfterMs } = decision as Decision;
      const found = resetAfterMs > 0;
      return {
        policy: policy.name,
        key,
        storedKey: this.connection.keyPrefix + storedKey(tagOf(key, this.options), policy.id),
        found,
        limit,
        remaining,
        resetAfterMs,
        ttlMs: found ? stored.ttlMs : null,
        raw: found ? stored.raw : null,
      };
    });
  }

  shardOf(key: string): number {
    return this.connection.cluster ? hashSlot(tagOf(key, this.options)) : 0;
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  /** Queues one group and reads its answer. */
  private ask<T>(
    charges: readonly (Omit<Charge, "mode"> & { mode: Action })[],
    waiting: CallState | undefined,
    read: (decisions: Decision[], stored: Stored) => T,
  ): Promise<T> {
    // What is thrown in here rejects the promise.
    return new Promise((resolve, reject) => {
      if (this.disposed) rejectDisposed(this.name);
      let slot = 0;
      const steps = charges.map(({ policy, key, cost, mode, grantEndsAt }, i): Step => {
        const tag = tagOf(key, this.options);
        if (this.connection.cluster) {
          const own = hashSlot(tag);
          if (i > 0 && own !== slot) throw optionError("cross-shard", "group", "keys of one slot of the cluster");
          slot = own;
        }
        return { policy, key, cost, mode, grantEndsAt, storedKey: storedKey(tag, policy.id), ttlMs: this.ttlMs };
      });
      const settle = (decisions: Decision[], stored: Stored): void => resolve(read(decisions, stored));
      this.batches.add({ steps, slot, waiting, resolve: settle, reject });
    });
  }
}
