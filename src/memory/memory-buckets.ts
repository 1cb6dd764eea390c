/** The buckets of one policy in a memory store. */

import type { Clock } from "../base/clock.ts";
import type { Charge } from "../core/charge.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { decide } from "../core/decide.ts";
import type { Decision } from "../core/decision.ts";
import { recordGrant } from "../core/grant.ts";
import { isHeldState, type State } from "../core/state.ts";
import { type Bucket, clampToNow, fits, peek, take } from "../core/step.ts";
import type { PolicyBuckets } from "../core/store.ts";
import type { Sized } from "./policy-sizes.ts";
import { shortKey } from "./short-key.ts";
import { SlotTable } from "./slot-table.ts";

/** The slots of a policy that has keys. */
export interface PolicySlots extends Sized {
  readonly id: string;
  /** One, or several in a large store. */
  readonly shards: readonly SlotTable[];
}

/** The store that the buckets are in. */
interface BucketOwner {
  readonly clock: Clock;
  /** The slots of a policy that has keys. */
  find(policy: CompiledPolicy): PolicySlots | undefined;
  /** Makes room for a new key of a policy, and returns the policy's slots. */
  makeRoom(policy: CompiledPolicy, now: number): PolicySlots;
  remove(entry: PolicySlots, table: SlotTable, slot: number): void;
}

/** The most cells of an algorithm. */
const MAX_WIDTH = 8;

/** The cells of a key that has none. They are read, never written. */
const UNTOUCHED = new Float64Array(MAX_WIDTH);

/** The buckets of one policy. A name is a key as it is stored. */
export class MemoryBuckets implements PolicyBuckets {
  private readonly memory: BucketOwner;
  readonly policy: CompiledPolicy;
  private readonly seed: number;
  /** The policy's slots when they were last looked up. They can be out of date only while the policy has no keys. */
  private entry: PolicySlots | undefined = undefined;
  private shards: readonly SlotTable[] = [];
  /** The only shard, if there is one. */
  private table: SlotTable | undefined;

  constructor(memory: BucketOwner, policy: CompiledPolicy, seed: number) {
    this.memory = memory;
    this.policy = policy;
    this.seed = seed;
    this.use(memory.find(policy));
    // Empty, until the policy has a key.
    if (!this.entry) this.table = new SlotTable(policy);
  }

  /** Takes from the bucket of a key. A long key is stored under a tag, so it is found in the second step. */
  take(key: string, cost: number, now: number = this.memory.clock.now()): Decision {
    const { slotOf, cells, algorithm } = this.table ?? this.shardFor(key);
    const slot = slotOf.get(key);
    // Engines inline a limited amount of code per path, so rare cases have a function of their own.
    if (slot === undefined) return this.takeFirst(key, cost, now);
    const at = slot * algorithm.width;
    if (algorithm.take) return algorithm.take(cells, at, this.policy, cost, now);
    return take(algorithm, cells, at, this.policy, cost, now);
  }

  /** The first charge of a key, or one of a long key. */
  private takeFirst(key: string, cost: number, now: number): Decision {
    const name = shortKey(key);
    if (this.isHeld(name)) return this.takeHeld(name, cost, now);
    let table = this.tableFor(name);
    let slot = table.slotOf.get(name);
    if (slot === undefined) {
      // A charge that takes nothing adds no bucket.
      if (cost === 0 || cost > this.policy.limit) {
        const decision = this.peek(name, cost, now);
        return decision.allowed ? recordGrant(decision, now, 0) : decision;
      }
      [table, slot] = this.addSlot(name, now);
    }
    return take(table.algorithm, table.cells, slot * table.algorithm.width, this.policy, cost, now);
  }

  /** Whether a key has holds. The group engine decides its charges. */
  isHeld(name: string): boolean {
    const { held } = this.tableFor(name);
    return held.size > 0 && held.has(name);
  }

  private takeHeld(name: string, cost: number, now: number): Decision {
    const charge: Charge = { policy: this.policy, key: name, cost, mode: "take" };
    const { decision, state, changed } = decide(this.read(name), charge, now);
    if (changed) this.write(name, state, now);
    return decision;
  }

  /** The decision on a cost of a key without holds. */
  peek(name: string, cost: number, now: number): Decision {
    return peek(this.find(name) ?? this.untouched(), cost, now);
  }

  /** The decision on a charge of a denied group: a look, which clamps a state dated in the future if it denies. */
  deny(name: string, cost: number, now: number): Decision {
    const bucket = this.find(name);
    if (bucket) clampToNow(bucket, cost, now);
    return peek(bucket ?? this.untouched(), cost, now);
  }

  fits(name: string, cost: number, now: number): boolean {
    const bucket = this.find(name);
    return bucket ? fits(bucket, cost, now) : cost <= this.policy.limit;
  }

  read(name: string): State | undefined {
    const table = this.tableFor(name);
    const slot = table.find(name);
    return slot === undefined ? undefined : table.read(slot);
  }

  write(name: string, state: State, now: number): void {
    let table = this.tableFor(name);
    let slot = table.find(name);
    if (!isHeldState(state) && state.length === 0) {
      if (slot !== undefined && this.entry) this.memory.remove(this.entry, table, slot);
      return;
    }
    if (slot === undefined && isHeldState(state)) {
      this.use(this.memory.makeRoom(this.policy, now));
      this.tableFor(name).addHeld(name, state);
      return;
    }
    if (slot === undefined) [table, slot] = this.addSlot(name, now);
    table.write(slot, state);
  }

  private addSlot(name: string, now: number): [SlotTable, number] {
    this.use(this.memory.makeRoom(this.policy, now));
    const table = this.tableFor(name);
    return [table, table.add(name)];
  }

  private find(name: string): Bucket | undefined {
    const { slotOf, cells, algorithm } = this.tableFor(name);
    const slot = slotOf.get(name);
    return slot === undefined ? undefined : { algorithm, cells, at: slot * algorithm.width, policy: this.policy };
  }

  private untouched(): Bucket {
    const { algorithm } = this.table ?? (this.shards[0] as SlotTable);
    return { algorithm, cells: algorithm.list ? [[]] : UNTOUCHED, at: 0, policy: this.policy };
  }

  /** The table that a key belongs to, whether it is there or not. */
  private tableFor(name: string): SlotTable {
    if (!this.entry?.size) this.use(this.memory.find(this.policy));
    return this.table ?? this.shardFor(name);
  }

  private use(entry: PolicySlots | undefined): void {
    if (!entry || entry === this.entry) return;
    this.entry = entry;
    this.shards = entry.shards;
    this.table = entry.shards.length === 1 ? entry.shards[0] : undefined;
  }

  private shardFor(name: string): SlotTable {
    let hash = this.seed;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    return this.shards[(hash ^ (hash >>> 13)) & (this.shards.length - 1)] as SlotTable;
  }
}
