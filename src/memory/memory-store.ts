/** Buckets in this process's memory: synchronous, bounded, without timers. */

import { type Clock, checkedClock, systemClock } from "../base/clock.ts";
import { optionError, rejectDisposed, SluiceError } from "../base/errors.ts";
import { checkOptions, checkWhole } from "../base/options.ts";
import { shared } from "../base/shared-state.ts";
import type { Charge, Group } from "../core/charge.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { decide, decideGroup } from "../core/decide.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { describeState } from "../core/describe-state.ts";
import { isHeldState } from "../core/state.ts";
import type { SyncStore } from "../core/store.ts";
import { MemoryBuckets, type PolicySlots } from "./memory-buckets.ts";
import { PolicySizes } from "./policy-sizes.ts";
import { shortKey } from "./short-key.ts";
import { SlotTable } from "./slot-table.ts";

/** Options of a memory store. */
export interface MemoryStoreOptions {
  /** Source of time, for tests. Default: the system clock, made monotonic. */
  clock?: Clock;
  /** Maximum number of keys, over all policies. Default: 100 000. */
  maxKeys?: number;
}

/** A store in this process's memory. */
export interface MemoryStore extends SyncStore {
  /** Number of keys. */
  readonly size: number;
  /** Number of evicted buckets that were not full yet. If it is above 0, raise `maxKeys`. */
  readonly evictions: number;
  /** Deletes all keys of all policies. */
  clear(): void;
}

/** Buckets to choose from for an eviction; the fullest one is evicted. */
const CANDIDATES = 8;
const MAX_KEYS = 2 ** 27;
/** A `Map` moves all its entries when it grows; at this size that takes a few milliseconds. */
const KEYS_PER_SHARD = 2 ** 16;

/** Maximum size of a table that is kept without keys. */
const MAX_SPARE_CELLS = 64;

/** How many stores this process has created. */
const created = /* @__PURE__ */ shared("memoryStores", () => ({ count: 0 }));

/** How many stores in memory this process has created, so that a store can be told from earlier ones. */
export function memoryStoreCount(): number {
  return created.count;
}

/** Creates a store in memory: exact within this process, and not shared with others. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  if (Object.hasOwn(options ?? {}, "policy")) {
    const message =
      "memoryStore() takes no policy. Use createLimiter({ policy, store: memoryStore() }) or memoryRateLimiter(policy).";
    throw new SluiceError("unknown-option", message, { option: "policy", expected: "no policy" });
  }
  checkOptions("memoryStore", options, ["clock", "maxKeys"]);
  const { clock, maxKeys = 100_000 } = options;
  checkWhole("maxKeys", maxKeys, 1, MAX_KEYS);
  if (clock !== undefined && typeof clock?.now !== "function") {
    throw optionError("invalid-option", "clock", "an object with now()", clock);
  }
  return new InMemoryStore(clock ? checkedClock(clock) : systemClock(), maxKeys);
}

/** Members are private by type only: on some engines a `#private` field costs as much as the arithmetic. */
class InMemoryStore implements MemoryStore {
  readonly consistency = "exact";
  readonly kind = "memory";
  /** The number of this store, counted from 1. */
  readonly serial: number = ++created.count;
  size = 0;
  evictions = 0;
  /** Called for every eviction that is counted. Set by observers. */
  onEviction: (() => void) | undefined = undefined;
  /** Every call reads it first, and once. */
  clock: Clock;
  private readonly maxKeys: number;
  /** The slots of the policy that had keys last. */
  private spare: PolicySlots | undefined = undefined;
  private readonly opened: WeakMap<CompiledPolicy, MemoryBuckets> = new WeakMap();
  /** The policies that have keys. A policy without keys is dropped, so names alone use no memory. */
  private readonly policies: Map<string, PolicySlots> = new Map();
  private readonly sizes: PolicySizes<PolicySlots> = new PolicySizes();
  /** Spreads the keys of one policy over its shards. Need not be secret. */
  private readonly seed: number = (Math.random() * 2 ** 32) | 0;

  constructor(clock: Clock, maxKeys: number) {
    this.clock = clock;
    this.maxKeys = maxKeys;
  }

  open(policy: CompiledPolicy): MemoryBuckets {
    return new MemoryBuckets(this, policy, this.seed);
  }

  /** The same for callers that don't keep what they open. */
  private bucketsOf(policy: CompiledPolicy): MemoryBuckets {
    let buckets = this.opened.get(policy);
    if (!buckets) this.opened.set(policy, (buckets = this.open(policy)));
    return buckets;
  }

  /** The slots of a policy that has keys. */
  find(policy: CompiledPolicy): PolicySlots | undefined {
    const entry = this.policies.get(policy.id);
    if (entry && policy.windowMs > (entry.shards[0] as SlotTable).policy.windowMs) {
      for (const table of entry.shards) table.policy = policy;
    }
    return entry;
  }

  takeAll(buckets: readonly MemoryBuckets[], key: string, cost: number): Decision[] {
    const now = this.clock.now();
    const name = shortKey(key);
    if (buckets.some((bucket) => bucket.isHeld(name))) {
      return this.decideGroup(
        buckets.map(({ policy }) => ({ policy, key, cost, mode: "take" })),
        now,
      );
    }
    let admitted = true;
    for (const bucket of buckets) admitted = bucket.fits(name, cost, now) && admitted;
    const decisions: Decision[] = [];
    for (const bucket of buckets) {
      decisions.push(admitted ? bucket.take(name, cost, now) : bucket.deny(name, cost, now));
    }
    return decisions;
  }

  applySync(group: Group): Decision[] {
    return this.decideGroup(group, this.clock.now());
  }

  private decideGroup(group: Group, now: number): Decision[] {
    const [only] = group;
    if (only && group.length === 1) return [this.decideOne(only, now)];
    const buckets = group.map(({ policy }) => this.bucketsOf(policy));
    if (canTake(group, buckets)) return takeGroup(group, buckets, now);
    const results = decideGroup(group, ({ key }, i) => (buckets[i] as MemoryBuckets).read(shortKey(key)), now);
    return results.map(({ decision, state, changed }, i) => {
      if (changed) (buckets[i] as MemoryBuckets).write(shortKey((group[i] as Charge).key), state, now);
      return decision;
    });
  }

  private decideOne(charge: Charge, now: number): Decision {
    const buckets = this.bucketsOf(charge.policy);
    const name = shortKey(charge.key);
    const { decision, state, changed } = decide(buckets.read(name), charge, now);
    if (changed) buckets.write(name, state, now);
    return decision;
  }

  async apply(groups: readonly Group[]): Promise<Decision[][]> {
    return groups.map((group) => this.applySync(group));
  }

  async inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    const now = this.clock.now();
    const name = shortKey(key);
    const state = this.open(policy).read(name);
    const description = describeState(state, policy, now);
    const { found, resetAfterMs } = description;
    const raw = isHeldState(state) ? state : [...(state ?? [])];
    return {
      ...description,
      key,
      storedKey: name,
      ttlMs: found ? resetAfterMs : null,
      raw: found ? raw : null,
    };
  }

  clear(): void {
    // Limiters keep a reference to the tables that they used last.
    for (const { shards } of this.policies.values()) for (const table of shards) table.clear();
    this.policies.clear();
    this.spare = undefined;
    this.sizes.clear();
    this.size = 0;
    this.evictions = 0;
  }

  async dispose(): Promise<void> {
    this.clear();
    this.clock = { now: () => rejectDisposed("memoryStore") };
  }

  /** Makes room for a new key of a policy, and returns the policy's slots. */
  makeRoom(policy: CompiledPolicy, now: number): PolicySlots {
    let entry = this.find(policy);
    if (this.size >= this.maxKeys) this.evict(entry, now);
    if (!entry && this.spare?.id === policy.id) {
      entry = this.spare;
      for (const table of entry.shards) table.policy = policy;
    }
    if (!entry) {
      // One shard up to twice its size, so that ordinary stores need no hash of ours.
      const count = this.maxKeys <= 2 * KEYS_PER_SHARD ? 1 : 2 ** Math.ceil(Math.log2(this.maxKeys / KEYS_PER_SHARD));
      const shards = Array.from({ length: count }, () => new SlotTable(policy));
      entry = { id: policy.id, shards, size: 0, place: 0 };
    }
    // The eviction may have removed its only key.
    if (entry.size === 0) this.policies.set(entry.id, entry);
    this.size++;
    this.sizes.increment(entry);
    return entry;
  }

  remove(entry: PolicySlots, table: SlotTable, slot: number): void {
    this.size--;
    table.remove(slot);
    this.sizes.decrement(entry);
    if (entry.size > 0) return;
    this.policies.delete(entry.id);
    // Holds often come and go on one key, which would create the table each time.
    if (table.cells.length <= MAX_SPARE_CELLS && entry.shards.length === 1) this.spare = entry;
  }

  /**
   * Evicts a bucket for a new key of a policy: the fullest of a few random ones. Not LRU: a denied client could evict its
   * own bucket by sending new keys. A policy with more than its share of `maxKeys` evicts its own buckets, any other those
   * of the largest policy. So a spray of keys never evicts buckets of a policy within its share.
   */
  private evict(entry: PolicySlots | undefined, now: number): void {
    const { sizes } = this;
    const from = entry && entry.size * sizes.count >= this.maxKeys ? entry : sizes.largest;
    let [chosen, fullest, fullestSlot, leastUsage] = [from, ...pickSlot(from), 2];
    // Then a few of any policy: a bucket that is full again can be evicted without a loss.
    const candidates = sizes.count > 1 ? 2 * CANDIDATES : CANDIDATES;
    for (let i = 0; i < candidates && leastUsage > 0; i++) {
      const other = i < CANDIDATES ? from : sizes.pick(Math.random());
      const [table, slot] = pickSlot(other);
      const usage = table.usage(slot, now);
      if (usage < leastUsage && (other === from || usage === 0)) {
        [chosen, fullest, fullestSlot, leastUsage] = [other, table, slot, usage];
      }
    }
    if (leastUsage > 0) {
      this.evictions++;
      this.onEviction?.();
    }
    this.remove(chosen, fullest, fullestSlot);
  }
}

/** Whether a group only takes, from keys without holds: then each of its buckets is decided in one short step. */
function canTake(group: Group, buckets: readonly MemoryBuckets[]): boolean {
  for (let i = 0; i < group.length; i++) {
    const { mode, key } = group[i] as Charge;
    if (mode !== "take" || (buckets[i] as MemoryBuckets).isHeld(shortKey(key))) return false;
  }
  return true;
}

function takeGroup(group: Group, buckets: readonly MemoryBuckets[], now: number): Decision[] {
  let admitted = true;
  for (let i = 0; i < group.length; i++) {
    const { key, cost } = group[i] as Charge;
    admitted = (buckets[i] as MemoryBuckets).fits(shortKey(key), cost, now) && admitted;
  }
  const decisions: Decision[] = [];
  for (let i = 0; i < group.length; i++) {
    const { key, cost } = group[i] as Charge;
    const bucket = buckets[i] as MemoryBuckets;
    decisions.push(admitted ? bucket.take(key, cost, now) : bucket.deny(shortKey(key), cost, now));
  }
  return decisions;
}

/** A random bucket of a policy. Keys are spread evenly over the shards. */
function pickSlot({ shards }: PolicySlots): [SlotTable, number] {
  const first = Math.floor(Math.random() * shards.length);
  for (let i = 0; i < shards.length; i++) {
    const table = shards[(first + i) & (shards.length - 1)] as SlotTable;
    const { length } = table.keys;
    if (length > 0) return [table, Math.floor(Math.random() * length)];
  }
  return [shards[0] as SlotTable, 0];
}
