/** Buckets in Durable Objects: exact for all of Cloudflare, one call for all that is asked of an object in one tick. */
import type { Charge, Group } from "../../../../core/charge.ts";
import type { CompiledPolicy } from "../../../../core/compile.ts";
import type { Decision, Inspection } from "../../../../core/decision.ts";
import { optionError, rejectDisposed } from "../../../../core/errors.ts";
import { checkOptions, checkWhole } from "../../../../core/options.ts";
import type { CallState, Store } from "../../../../core/store.ts";
import { checkKeyOptions, KEY_OPTIONS, type KeyOptions, storedKey, keyTag } from "../../../stored-key.ts";
import { type DurableObjectNamespaceLike, type DurableObjectStubLike, has } from "../../platform.ts";
import type { RateLimiterObject } from "../object/rate-limiter-do.ts";
import {
  type BucketCall,
  bucketCall,
  checkSendable,
  MAX_CHARGES_PER_CALL,
  readChargeDecision,
  readDecision,
  type TakeCall,
  takeCall,
  type WireDecision,
} from "../wire/wire.ts";
import { jumpHash } from "./jump-hash.ts";

/** What a store in Durable Objects can be told. */
export interface DurableObjectStoreOptions extends KeyOptions {
  /**
   * Over how many objects keys are spread, by a hash that stays the same: one object makes one to two thousand grants
   * a second, one by one. `"per-key"`: every key has an object of its own. Default: 128.
   */
  shards?: number | "per-key";
}

/** A store in Durable Objects. */
export interface DurableObjectStore extends Store {
  readonly consistency: "exact";
  shardOf(key: string): number | string;
}

/** The names of all these options. */
export const DURABLE_OBJECT_OPTIONS: readonly string[] = ["shards", ...KEY_OPTIONS];

const MAX_SHARDS = 65_536;

/** Keeps buckets in the objects of a namespace whose class is `RateLimiterDO`. */
export function durableObjectStore(
  namespace: DurableObjectNamespaceLike,
  options: DurableObjectStoreOptions = {},
): DurableObjectStore {
  if (!has(namespace, ["idFromName", "get"])) {
    const expected =
      "a Durable Object namespace, such as env.RATE_LIMITER with a binding of that name in wrangler.jsonc";
    throw optionError("invalid-option", "namespace", expected, namespace);
  }
  checkOptions("durableObjectStore", options, DURABLE_OBJECT_OPTIONS);
  const { shards = 128 } = options;
  if (typeof shards === "string" && shards !== "per-key") {
    throw optionError("invalid-option", "shards", 'a whole number >= 1 or "per-key"', shards);
  }
  if (shards !== "per-key") checkWhole("shards", shards, 1, MAX_SHARDS);
  checkKeyOptions(options);
  return new DurableObjects(namespace, shards, options);
}

/** A group on its way. The keys of its charges are buckets. */
interface Job {
  readonly group: Group;
  readonly waiting: CallState | undefined;
  resolve(decisions: Decision[]): void;
  reject(error: unknown): void;
}

class DurableObjects implements DurableObjectStore {
  readonly consistency = "exact";
  // An object may have to be woken, or may live on another continent.
  readonly deadlineMs = 1000;
  readonly failsPerShard = true;
  private readonly namespace: DurableObjectNamespaceLike;
  private readonly shards: number | "per-key";
  private readonly options: KeyOptions;
  /** What is asked in this tick, by the part that it is asked of. */
  private queues: Map<number | string, Job[]> = new Map();
  private disposed = false;

  constructor(namespace: DurableObjectNamespaceLike, shards: number | "per-key", options: KeyOptions) {
    this.namespace = namespace;
    this.shards = shards;
    this.options = options;
  }

  check(policy: CompiledPolicy): void {
    checkSendable(policy);
  }

  apply(groups: readonly Group[], waiting?: CallState): Promise<Decision[][]> {
    return Promise.all(
      groups.map(
        (group) =>
          // What is thrown in here rejects the promise.
          new Promise<Decision[]>((resolve, reject) => {
            if (this.disposed) rejectDisposed("durableObjectStore");
            const { part, buckets } = this.locate(group);
            this.add(part, { group: buckets, waiting, resolve, reject });
          }),
      ),
    );
  }

  async reset(policy: CompiledPolicy, key: string): Promise<void> {
    await this.ask("reset", policy, key);
  }

  async inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    const { decision, raw, ttlMs } = await this.ask("inspect", policy, key);
    const { limit, remaining, resetAfterMs } = readDecision(decision, policy);
    const bucket = storedKey(keyTag(key, this.options), policy.id);
    return {
      policy: policy.name,
      key,
      storedKey: bucket,
      found: raw !== null,
      limit,
      remaining,
      resetAfterMs,
      ttlMs,
      raw,
    };
  }

  shardOf(key: string): number | string {
    return this.partOfTag(keyTag(key, this.options));
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  private partOfTag(tag: string): number | string {
    return this.shards === "per-key" ? tag : jumpHash(tag, this.shards);
  }

  /** The one part that all keys of a group live in, and its charges by their buckets. */
  private locate(group: Group): { part: number | string; buckets: Group } {
    let part: number | string | undefined;
    const buckets = group.map((charge): Charge => {
      const tag = keyTag(charge.key, this.options);
      const own = this.partOfTag(tag);
      part ??= own;
      if (own !== part) throw optionError("cross-shard", "group", "keys of one shard, or one key for an object");
      return { ...charge, key: storedKey(tag, charge.policy.id) };
    });
    return { part: part as number | string, buckets };
  }

  private async ask<M extends "reset" | "inspect">(
    method: M,
    policy: CompiledPolicy,
    key: string,
  ): Promise<Awaited<ReturnType<RateLimiterObject[M]>>> {
    if (this.disposed) rejectDisposed("durableObjectStore");
    const tag = keyTag(key, this.options);
    return this.call(this.partOfTag(tag), method, bucketCall(policy, storedKey(tag, policy.id)));
  }

  private add(part: number | string, job: Job): void {
    // A microtask: on Workers whoever is called in one event must not wait for what belongs to another. By a promise,
    // because queueMicrotask costs as much there as the arithmetic.
    if (this.queues.size === 0) void Promise.resolve().then(() => this.flush());
    const queue = this.queues.get(part);
    if (queue) queue.push(job);
    else this.queues.set(part, [job]);
  }

  private flush(): void {
    const { queues } = this;
    this.queues = new Map();
    for (const [part, jobs] of queues) {
      let [batch, charges] = [[] as Job[], 0];
      for (const job of jobs) {
        // What nobody waits for is not sent: it would be charged for an answer that was given without it.
        if (job.waiting?.abandoned) continue;
        charges += job.group.length;
        if (charges > MAX_CHARGES_PER_CALL) {
          void this.send(part, batch);
          [batch, charges] = [[], job.group.length];
        }
        batch.push(job);
      }
      if (batch.length > 0) void this.send(part, batch);
    }
  }

  /**
   * Sent once. The runtime itself sends again what has never reached its object, and nothing else; a call that may
   * have been charged is a fault.
   */
  private async send(part: number | string, jobs: readonly Job[]): Promise<void> {
    try {
      const { now, groups } = await this.call(part, "take", takeCall(jobs.map(({ group }) => group)));
      jobs.forEach(({ group, resolve }, i) => {
        const decisions = groups[i] as readonly WireDecision[];
        resolve(group.map((charge, j) => readChargeDecision(decisions[j] as WireDecision, charge, now)));
      });
    } catch (error) {
      for (const { reject } of jobs) reject(error);
    }
  }

  /** Calls a method of an object: by RPC, or as JSON where the runtime is too old for that. */
  private async call<M extends "take" | "reset" | "inspect">(
    part: number | string,
    method: M,
    call: TakeCall | BucketCall,
  ): Promise<Awaited<ReturnType<RateLimiterObject[M]>>> {
    const name = this.shards === "per-key" ? `key:${part}` : `shard:${part}`;
    const stub = this.namespace.get(this.namespace.idFromName(name) as never);
    const remote = stub as Partial<Record<M, (call: object) => Promise<never>>>;
    if (remote[method]) {
      return await remote[method](call).catch((error: unknown) => {
        if (!/does not implement|not support RPC|no such method/i.test(String(error))) throw error;
        const expected = "a namespace whose class is RateLimiterDO of sluice/cloudflare, or extends it";
        throw Object.assign(optionError("invalid-option", "namespace", expected), { cause: error });
      });
    }
    const request = { method: "POST", body: JSON.stringify(call) };
    const response = await (stub as DurableObjectStubLike).fetch(`https://sluice/${method}`, request);
    const body = (await response.json().catch(() => undefined)) as never;
    if (response.ok) return body;
    const { error } = (body ?? {}) as { error?: { message?: string } };
    throw new Error(error?.message ?? `a Durable Object answered ${response.status}`);
  }
}
