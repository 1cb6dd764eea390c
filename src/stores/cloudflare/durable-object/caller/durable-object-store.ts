/** A store in Durable Objects: exact across all of Cloudflare, one RPC per object for all calls of one tick. */

import { optionError, rejectDisposed, SluiceError } from "../../../../base/errors.ts";
import { checkOptions, checkWhole } from "../../../../base/options.ts";
import type { Charge, Group } from "../../../../core/charge.ts";
import type { CompiledPolicy } from "../../../../core/compiled-policy.ts";
import type { Decision, Inspection } from "../../../../core/decision.ts";
import type { CallState, Store } from "../../../../core/store.ts";
import { checkKeyOptions, KEY_OPTIONS, type KeyOptions, keyTag, storedKey } from "../../../stored-key.ts";
import { type DurableObjectNamespaceLike, hasMethods } from "../../platform.ts";
import type { RateLimiterObject } from "../object/rate-limiter-do.ts";
import {
  type ApplyCall,
  type BucketCall,
  checkEncodable,
  encodeApplyCall,
  encodeBucketCall,
  MAX_CHARGES_PER_CALL,
} from "../wire/calls.ts";
import { checkReplyVersion, decodeChargeDecision, type WireDecision } from "../wire/replies.ts";
import { jumpHash } from "./jump-hash.ts";

/** Options of `durableObjectStore`. */
export interface DurableObjectStoreOptions extends KeyOptions {
  /**
   * Number of objects over which keys are spread by a consistent hash. One object handles one to two thousand separate
   * grants per second. `"per-key"` gives every key an object of its own. Default: 128.
   */
  shards?: number | "per-key";
}

/** A store in Durable Objects. */
export interface DurableObjectStore extends Store {
  /** Decisions are exact. */
  readonly consistency: "exact";
  /** Returns the object that has the key. */
  shardOf(key: string): number | string;
}

/** The names of `DurableObjectStoreOptions`. */
export const DURABLE_OBJECT_OPTIONS: readonly string[] = ["shards", ...KEY_OPTIONS];

/** Default of `shards`. */
export const DEFAULT_SHARDS = 128;
const MAX_SHARDS = 65_536;

/** Creates a store in the Durable Objects of a namespace whose class is `RateLimiterDO`. */
export function durableObjectStore(
  namespace: DurableObjectNamespaceLike,
  options: DurableObjectStoreOptions = {},
): DurableObjectStore {
  if (!hasMethods(namespace, ["idFromName", "get"])) {
    const expected =
      "a Durable Object namespace, such as env.RATE_LIMITER with a binding of that name in wrangler.jsonc";
    throw optionError("invalid-option", "namespace", expected, namespace);
  }
  checkOptions("durableObjectStore", options, DURABLE_OBJECT_OPTIONS);
  const { shards = DEFAULT_SHARDS } = options;
  if (typeof shards === "string" && shards !== "per-key") {
    throw optionError("invalid-option", "shards", 'a whole number >= 1 or "per-key"', shards);
  }
  if (shards !== "per-key") checkWhole("shards", shards, 1, MAX_SHARDS);
  checkKeyOptions(options);
  return new DurableObjects(namespace, shards, options);
}

/** A number, or with `"per-key"` the tag of a key. */
type Shard = number | string;

/** A queued group. */
interface Job {
  /** Its charges, whose keys are stored keys. */
  readonly group: Group;
  readonly callState: CallState | undefined;
  resolve(decisions: Decision[]): void;
  reject(error: unknown): void;
}

class DurableObjects implements DurableObjectStore {
  readonly consistency = "exact";
  readonly kind = "durable-object";
  // Longer than for other stores: an object may have to start first, or live on another continent.
  readonly deadlineMs = 1000;
  readonly failsPerShard = true;
  private readonly namespace: DurableObjectNamespaceLike;
  private readonly shards: number | "per-key";
  private readonly options: KeyOptions;
  /** The jobs of this tick. */
  private queues: Map<Shard, Job[]> = new Map();
  private disposed = false;

  constructor(namespace: DurableObjectNamespaceLike, shards: number | "per-key", options: KeyOptions) {
    this.namespace = namespace;
    this.shards = shards;
    this.options = options;
  }

  check(policy: CompiledPolicy): void {
    checkEncodable(policy);
  }

  apply(groups: readonly Group[], callState?: CallState): Promise<Decision[][]> {
    return Promise.all(
      groups.map(
        (group) =>
          // Errors thrown in here reject the promise.
          new Promise<Decision[]>((resolve, reject) => {
            if (this.disposed) rejectDisposed("durableObjectStore");
            const located = this.locate(group);
            this.enqueue(located.shard, { group: located.group, callState, resolve, reject });
          }),
      ),
    );
  }

  async inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    if (this.disposed) rejectDisposed("durableObjectStore");
    const tag = keyTag(key, this.options);
    const bucket = storedKey(tag, policy.id);
    const reply = await this.callObject(this.shardOfTag(tag), "inspect", encodeBucketCall(policy, bucket));
    checkReplyVersion(reply);
    const { description, raw, ttlMs } = reply;
    return { policy: policy.name, key, storedKey: bucket, ...description, found: raw !== null, ttlMs, raw };
  }

  shardOf(key: string): Shard {
    return this.shardOfTag(keyTag(key, this.options));
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  private shardOfTag(tag: string): Shard {
    return this.shards === "per-key" ? tag : jumpHash(tag, this.shards);
  }

  /** Returns the shard of a group, and the group with stored keys. */
  private locate(group: Group): { shard: Shard; group: Group } {
    let shard: Shard | undefined;
    const charges = group.map((charge): Charge => {
      const tag = keyTag(charge.key, this.options);
      const own = this.shardOfTag(tag);
      shard ??= own;
      if (own !== shard) {
        throw new SluiceError("cross-shard", "All keys of a group must be in the same Durable Object.", {
          option: "group",
          expected: "keys of one shard",
        });
      }
      return { ...charge, key: storedKey(tag, charge.policy.id) };
    });
    return { shard: shard as Shard, group: charges };
  }

  private enqueue(shard: Shard, job: Job): void {
    // Flush in a microtask: on Workers a request can't wait for I/O of another request. A promise, because
    // queueMicrotask() is as expensive there as the whole decision.
    if (this.queues.size === 0) void Promise.resolve().then(() => this.flush());
    const queue = this.queues.get(shard);
    if (queue) queue.push(job);
    else this.queues.set(shard, [job]);
  }

  private flush(): void {
    const { queues } = this;
    this.queues = new Map();
    for (const [shard, jobs] of queues) {
      let [batch, charges] = [[] as Job[], 0];
      for (const job of jobs) {
        // Drop abandoned calls: the fallback has decided, and the object would charge them again.
        if (job.callState?.abandoned) continue;
        charges += job.group.length;
        if (charges > MAX_CHARGES_PER_CALL) {
          void this.send(shard, batch);
          [batch, charges] = [[], job.group.length];
        }
        batch.push(job);
      }
      if (batch.length > 0) void this.send(shard, batch);
    }
  }

  /** Sends jobs without retrying: the runtime retries calls that never reached the object, others may have been charged. */
  private async send(shard: Shard, jobs: readonly Job[]): Promise<void> {
    try {
      const reply = await this.callObject(shard, "apply", encodeApplyCall(jobs.map(({ group }) => group)));
      checkReplyVersion(reply);
      jobs.forEach(({ group, resolve }, i) => {
        const decisions = reply.groups[i] as readonly WireDecision[];
        resolve(group.map((charge, j) => decodeChargeDecision(decisions[j] as WireDecision, charge, reply.now)));
      });
    } catch (error) {
      for (const { reject } of jobs) reject(error);
    }
  }

  /** Calls a method of an object by RPC. */
  private async callObject<M extends "apply" | "inspect">(
    shard: Shard,
    method: M,
    call: ApplyCall | BucketCall,
  ): Promise<Awaited<ReturnType<RateLimiterObject[M]>>> {
    const name = this.shards === "per-key" ? `key:${shard}` : `shard:${shard}`;
    const stub = this.namespace.get(this.namespace.idFromName(name) as never);
    const object = stub as Partial<Record<M, (call: object) => Promise<never>>>;
    if (!object[method]) {
      throw new SluiceError(
        "unsupported",
        "durableObjectStore needs a compatibility date of 2024-04-03 or later, because it calls the object by RPC. Set compatibility_date in wrangler.jsonc.",
        { option: "namespace", expected: "a namespace whose objects can be called by RPC" },
      );
    }
    return await object[method](call).catch((error: unknown) => {
      if (!/does not implement|not support RPC|no such method/i.test(String(error))) throw error;
      const expected = "a namespace whose class is RateLimiterDO of sluice/cloudflare, or extends it";
      throw Object.assign(optionError("invalid-option", "namespace", expected), { cause: error });
    });
  }
}
