/** Buckets in this process's memory: synchronous, bounded, without timers. */
import { clampToNow, fits, peek, refund, take } from "../../algorithms/step.ts";
import type { Group } from "../../core/charge.ts";
import { type Clock, checkedClock, systemClock } from "../../core/clock.ts";
import type { CompiledPolicy } from "../../core/compile.ts";
import type { Decision, Inspection } from "../../core/decision.ts";
import { optionError, rejectDisposed } from "../../core/errors.ts";
import { recordGrant } from "../../core/grant.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import type { PolicyBuckets, SyncStore } from "../../core/store.ts";
import { storedKey } from "./long-key.ts";
import { PolicySizes, type Sized } from "./policy-sizes.ts";
import { SlotTable } from "./slots.ts";

/** What a memory store can be told. */
export interface MemoryStoreOptions {
  /** Where time comes from, for tests. Default: the system's time, which here never runs backwards. */
  clock?: Clock;
  /** The most keys kept at once, over all policies. Default: 100 000. */
  maxKeys?: number;
}

/** A store in this process's memory. */
export interface MemoryStore extends SyncStore {
  /** How many keys are kept now. */
  readonly size: number;
  /** How many buckets that were not yet full had to be given up for new keys; above 0, raise `maxKeys`. */
  readonly evictions: number;
  /** Forgets every key of every policy. */
  clear(): void;
}

/** What is drawn when a bucket has to go; the fullest of them goes. */
const CANDIDATES = 8;
const MAX_KEYS = 2 ** 27;
/** A `Map` moves all its entries when it grows; at this size that takes a few milliseconds. */
const KEYS_PER_SHARD = 2 ** 16;
/** The cells of a key that has none. They are read, never written. */
const UNTOUCHED = new Float64Array(3);

/** Keeps buckets in memory: exact for this process, and only for it. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  if (Object.hasOwn(options ?? {}, "policy")) {
    const expected = "no policy here: createLimiter({ policy, store: memoryStore() }) or memoryRateLimiter(policy)";
    throw optionError("unknown-option", "policy", expected);
  }
  checkOptions("memoryStore", options, ["clock", "maxKeys"]);
  const { clock, maxKeys = 100_000 } = options;
  checkWhole("maxKeys", maxKeys, 1, MAX_KEYS);
  if (clock !== undefined && typeof clock?.now !== "function") {
    throw optionError("invalid-option", "clock", "an object with now()", clock);
  }
  return new InMemoryStore(clock ? checkedClock(clock) : systemClock(), maxKeys);
}

/** Members are private by type only: on some engines a real private field costs as much as the arithmetic. */
class InMemoryStore implements MemoryStore {
  readonly consistency = "exact";
  size = 0;
  evictions = 0;
  /** Every call reads it first, and once. */
  clock: Clock;
  private readonly maxKeys: number;
  /** The policies that have keys. One that loses its last key is dropped, so that names alone take no memory. */
  private readonly policies: Map<string, PolicySlots> = new Map();
  private readonly sizes: PolicySizes<PolicySlots> = new PolicySizes();
  /** Spreads keys over the slots of one policy. It need not be secret. */
  private readonly seed: number = (Math.random() * 2 ** 32) | 0;

  constructor(clock: Clock, maxKeys: number) {
    this.clock = clock;
    this.maxKeys = maxKeys;
  }

  open(policy: CompiledPolicy): MemoryBuckets {
    return new MemoryBuckets(this, policy, this.seed);
  }

  /** The slots of a policy that has keys. */
  find(policy: CompiledPolicy): PolicySlots | undefined {
    const entry = this.policies.get(policy.id);
    if (entry && policy.windowMs > (entry.shards[0] as SlotTable).policy.windowMs) {
      for (const slots of entry.shards) slots.policy = policy;
    }
    return entry;
  }

  takeAll(buckets: readonly MemoryBuckets[], key: string, cost: number): Decision[] {
    const now = this.clock.now();
    const name = storedKey(key);
    let every = true;
    for (const bucket of buckets) every = bucket.fits(name, cost, now) && every;
    const decisions: Decision[] = [];
    for (const bucket of buckets) decisions.push(every ? bucket.take(name, cost, now) : bucket.deny(name, cost, now));
    return decisions;
  }

  applySync(group: Group): Decision[] {
    const now = this.clock.now();
    const steps = group.map(({ policy, key, cost, mode, grantEndsAt }) => ({
      bucket: this.open(policy),
      name: storedKey(key),
      cost,
      mode,
      grantEndsAt,
    }));
    const every = steps.every(
      ({ bucket, name, cost, mode }) => steps.length === 1 || mode === "refund" || bucket.fits(name, cost, now),
    );
    return steps.map(({ bucket, name, cost, mode, grantEndsAt }) => {
      if (every && mode === "take") return bucket.take(name, cost, now);
      if (every && mode === "refund") bucket.refund(name, cost, now, grantEndsAt);
      if (mode === "take") return bucket.deny(name, cost, now);
      return bucket.peek(name, mode === "refund" ? 0 : cost, now);
    });
  }

  async apply(groups: readonly Group[]): Promise<Decision[][]> {
    return groups.map((group) => this.applySync(group));
  }

  async reset(policy: CompiledPolicy, key: string): Promise<void> {
    this.clock.now();
    const name = storedKey(key);
    const entry = this.find(policy);
    const slots = this.open(policy).slotsFor(name);
    const slot = slots.slotOf.get(name);
    if (entry && slot !== undefined) this.remove(entry, slots, slot);
  }

  async inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    const now = this.clock.now();
    const name = storedKey(key);
    const bucket = this.open(policy);
    const { slotOf, cells, algorithm } = bucket.slotsFor(name);
    const { limit, remaining, resetAfterMs } = bucket.peek(name, 0, now);
    const at = (slotOf.get(name) ?? 0) * algorithm.width;
    const found = resetAfterMs > 0;
    const ttlMs = found ? resetAfterMs : null;
    const raw = found ? [...cells.slice(at, at + algorithm.width)].flat() : null;
    return { policy: policy.name, key, storedKey: name, found, limit, remaining, resetAfterMs, ttlMs, raw };
  }

  clear(): void {
    // Limiters keep the slots that they used last.
    for (const { shards } of this.policies.values()) for (const slots of shards) slots.clear();
    this.policies.clear();
    this.sizes.clear();
    this.size = 0;
    this.evictions = 0;
  }

  async dispose(): Promise<void> {
    this.clear();
    this.clock = { now: () => rejectDisposed("memoryStore") };
  }

  /** Makes room for a new key of a policy, and tells where it belongs. */
  makeRoom(policy: CompiledPolicy, now: number): PolicySlots {
    let entry = this.find(policy);
    if (this.size >= this.maxKeys) this.evict(entry, now);
    if (!entry) {
      // Up to twice the size there is one shard, so that ordinary stores pay for no hash of ours.
      const count = this.maxKeys <= 2 * KEYS_PER_SHARD ? 1 : 2 ** Math.ceil(Math.log2(this.maxKeys / KEYS_PER_SHARD));
      const shards = Array.from({ length: count }, () => new SlotTable(policy));
      entry = { bucket: policy.id, shards, size: 0, place: 0 };
    }
    // It may have lost its only key just now.
    if (entry.size === 0) this.policies.set(entry.bucket, entry);
    this.size++;
    this.sizes.increment(entry);
    return entry;
  }

  private remove(entry: PolicySlots, slots: SlotTable, slot: number): void {
    this.size--;
    slots.remove(slot);
    this.sizes.decrement(entry);
    if (entry.size === 0) this.policies.delete(entry.bucket);
  }

  /**
   * Removes a bucket for a new key of `policy`: the fullest of a random few. Not LRU: a denied client could evict its own
   * bucket by sending new keys. A policy with more than its share of `maxKeys` evicts its own buckets, and any other those
   * of the largest policy, so that a spray of keys never evicts buckets of a policy within its share.
   */
  private evict(entry: PolicySlots | undefined, now: number): void {
    const { sizes } = this;
    const from = entry && entry.size * sizes.count >= this.maxKeys ? entry : sizes.largest;
    let [chosen, fullest, fullestSlot, least] = [from, ...draw(from), 2];
    // Then a few of any policies: a bucket that is full again can go without a loss.
    const candidates = sizes.count > 1 ? 2 * CANDIDATES : CANDIDATES;
    for (let i = 0; i < candidates && least > 0; i++) {
      const other = i < CANDIDATES ? from : sizes.pick(Math.random());
      const [slots, slot] = draw(other);
      const usage = slots.usage(slot, now);
      if (usage < least && (other === from || usage === 0)) {
        [chosen, fullest, fullestSlot, least] = [other, slots, slot, usage];
      }
    }
    if (least > 0) this.evictions++;
    this.remove(chosen, fullest, fullestSlot);
  }
}

/** The slots of a policy that has keys. */
interface PolicySlots extends Sized {
  readonly bucket: string;
  /** One, or several for a large store. */
  readonly shards: readonly SlotTable[];
}

/** A bucket of a policy at random. Where there are shards, keys are spread evenly over them. */
function draw({ shards }: PolicySlots): [SlotTable, number] {
  const first = Math.floor(Math.random() * shards.length);
  for (let i = 0; i < shards.length; i++) {
    const slots = shards[(first + i) & (shards.length - 1)] as SlotTable;
    const { length } = slots.keys;
    if (length > 0) return [slots, Math.floor(Math.random() * length)];
  }
  return [shards[0] as SlotTable, 0];
}

/** The buckets of one policy; names are keys as they are stored. */
class MemoryBuckets implements PolicyBuckets {
  private readonly memory: InMemoryStore;
  private readonly policy: CompiledPolicy;
  private readonly seed: number;
  /** The policy's slots when they were last looked for. Without keys they may be out of date, and only then. */
  private entry: PolicySlots | undefined = undefined;
  private shards: readonly SlotTable[] = [];
  /** The only one, when there is one. */
  private whole: SlotTable | undefined;

  constructor(memory: InMemoryStore, policy: CompiledPolicy, seed: number) {
    this.memory = memory;
    this.policy = policy;
    this.seed = seed;
    this.use(memory.find(policy));
    // Empty, until the policy has a key.
    if (!this.entry) this.whole = new SlotTable(policy);
  }

  /** Takes from the bucket of a key. A long key is not found by itself, and then by its tag. */
  take(key: string, cost: number, now: number = this.memory.clock.now()): Decision {
    const { slotOf, cells, algorithm } = this.whole ?? this.shardFor(key);
    const slot = slotOf.get(key);
    // Engines inline only so much code along one path, so that all that is rare stands apart from it.
    if (slot === undefined || !algorithm.take) return this.takeOtherwise(key, cost, now);
    return algorithm.take(cells, slot * algorithm.width, this.policy, cost, now);
  }

  /** The first charge of a key, or one of an algorithm without a fast way. */
  private takeOtherwise(key: string, cost: number, now: number): Decision {
    const name = storedKey(key);
    let slots = this.slotsFor(name);
    let slot = slots.slotOf.get(name);
    if (slot === undefined) {
      // What takes nothing makes no bucket.
      if (cost === 0 || cost > this.policy.limit) {
        const decision = this.peek(name, cost, now);
        return decision.allowed ? recordGrant(decision, now, 0) : decision;
      }
      this.use(this.memory.makeRoom(this.policy, now));
      slots = this.slotsFor(name);
      slot = slots.add(name);
    }
    return take(slots.algorithm, slots.cells, slot * slots.algorithm.width, this.policy, cost, now);
  }

  peek(name: string, cost: number, now: number): Decision {
    const { slotOf, cells, algorithm } = this.slotsFor(name);
    const slot = slotOf.get(name);
    if (slot !== undefined) return peek(algorithm, cells, slot * algorithm.width, this.policy, cost, now);
    return peek(algorithm, algorithm.list ? [[]] : UNTOUCHED, 0, this.policy, cost, now);
  }

  /** What a charge that fails with its group gets: a look, and the healing of a denial. */
  deny(name: string, cost: number, now: number): Decision {
    const { slotOf, cells, algorithm } = this.slotsFor(name);
    const slot = slotOf.get(name);
    if (slot !== undefined) clampToNow(algorithm, cells, slot * algorithm.width, this.policy, cost, now);
    return this.peek(name, cost, now);
  }

  fits(name: string, cost: number, now: number): boolean {
    const { slotOf, cells, algorithm } = this.slotsFor(name);
    const slot = slotOf.get(name);
    if (slot === undefined) return cost <= this.policy.limit;
    return fits(algorithm, cells, slot * algorithm.width, this.policy, cost, now);
  }

  refund(name: string, cost: number, now: number, grantEndsAt: number | undefined): void {
    const { slotOf, cells, algorithm } = this.slotsFor(name);
    const slot = slotOf.get(name);
    if (slot !== undefined) refund(algorithm, cells, slot * algorithm.width, this.policy, cost, now, grantEndsAt);
  }

  /** The slots that a key belongs to, whether it is there or not. */
  slotsFor(name: string): SlotTable {
    if (!this.entry?.size) this.use(this.memory.find(this.policy));
    return this.whole ?? this.shardFor(name);
  }

  private use(entry: PolicySlots | undefined): void {
    if (!entry || entry === this.entry) return;
    this.entry = entry;
    this.shards = entry.shards;
    this.whole = entry.shards.length === 1 ? entry.shards[0] : undefined;
  }

  private shardFor(name: string): SlotTable {
    let hash = this.seed;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    return this.shards[(hash ^ (hash >>> 13)) & (this.shards.length - 1)] as SlotTable;
  }
}
