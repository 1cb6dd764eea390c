/** Buckets in this process's memory: synchronous, bounded, without timers. */
import { fits, heal, peek, refund, take } from "../../algorithms/step.ts";
import type { Group } from "../../core/charge.ts";
import { type Clock, checkedClock, systemClock } from "../../core/clock.ts";
import type { Decision, Inspection } from "../../core/decision.ts";
import { refuseDisposed, SluiceError } from "../../core/errors.ts";
import { recordGrant } from "../../core/grant.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import type { Buckets, SyncStore } from "../../core/store.ts";
import type { Terms } from "../../core/terms.ts";
import { storedKey } from "./long-key.ts";
import { Slots } from "./slots.ts";

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
const MOST_KEYS = 2 ** 27;
/** A `Map` moves all its entries when it grows; at this size that takes a few milliseconds. */
const KEYS_PER_SHARD = 2 ** 16;
/** The cells of a key that has none. They are read, never written. */
const UNTOUCHED = new Float64Array(3);

/** Keeps buckets in memory: exact for this process, and only for it. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  if (Object.hasOwn(options ?? {}, "policy")) {
    const expected = "no policy here: createLimiter({ policy, store: memoryStore() }) or memoryRateLimiter(policy)";
    throw new SluiceError("unknown-option", "policy", expected);
  }
  checkOptions("memoryStore", options, ["clock", "maxKeys"]);
  const { clock, maxKeys = 100_000 } = options;
  checkWhole("maxKeys", maxKeys, 1, MOST_KEYS);
  if (clock !== undefined && typeof clock?.now !== "function") {
    throw new SluiceError("invalid-option", "clock", "an object with now()", clock);
  }
  return new Memory(clock ? checkedClock(clock) : systemClock(), maxKeys);
}

/** Members are private by type only: on some engines a real private field costs as much as the arithmetic. */
class Memory implements MemoryStore {
  readonly consistency = "exact";
  size = 0;
  evictions = 0;
  /** Every call reads it first, and once. */
  clock: Clock;
  private readonly maxKeys: number;
  private readonly opened: Map<string, readonly Slots[]> = new Map();
  private readonly all: Slots[] = [];
  /** Spreads keys over the slots of one policy. It need not be secret. */
  private readonly seed: number = (Math.random() * 2 ** 32) | 0;

  constructor(clock: Clock, maxKeys: number) {
    this.clock = clock;
    this.maxKeys = maxKeys;
  }

  open(terms: Terms): PolicyBuckets {
    let shards = this.opened.get(terms.bucket);
    if (!shards) {
      // Up to twice the size there is one, so that ordinary stores pay for no hash of ours.
      const count = this.maxKeys <= 2 * KEYS_PER_SHARD ? 1 : 2 ** Math.ceil(Math.log2(this.maxKeys / KEYS_PER_SHARD));
      this.opened.set(terms.bucket, (shards = Array.from({ length: count }, () => new Slots(terms))));
      this.all.push(...shards);
    }
    if (terms.windowMs > (shards[0] as Slots).terms.windowMs) for (const slots of shards) slots.terms = terms;
    return new PolicyBuckets(this, shards, terms, this.seed);
  }

  takeAll(buckets: readonly PolicyBuckets[], key: string, cost: number): Decision[] {
    const now = this.clock.now();
    const name = storedKey(key);
    let every = true;
    for (const bucket of buckets) every = bucket.fits(name, cost, now) && every;
    const decisions: Decision[] = [];
    for (const bucket of buckets) decisions.push(every ? bucket.take(name, cost, now) : bucket.deny(name, cost, now));
    return decisions;
  }

  takeSync(group: Group): Decision[] {
    const now = this.clock.now();
    const steps = group.map(({ terms, key, cost, mode, grantEndsAt }) => ({
      bucket: this.open(terms),
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
      if (every && mode === "refund") bucket.giveBack(name, cost, now, grantEndsAt);
      if (mode === "take") return bucket.deny(name, cost, now);
      return bucket.look(name, mode === "refund" ? 0 : cost, now);
    });
  }

  async take(groups: readonly Group[]): Promise<Decision[][]> {
    return groups.map((group) => this.takeSync(group));
  }

  async reset(terms: Terms, key: string): Promise<void> {
    this.clock.now();
    const name = storedKey(key);
    const slots = this.open(terms).slotsFor(name);
    const slot = slots.slotOf.get(name);
    if (slot !== undefined) this.remove(slots, slot);
  }

  async inspect(terms: Terms, key: string): Promise<Inspection> {
    const now = this.clock.now();
    const name = storedKey(key);
    const bucket = this.open(terms);
    const { slotOf, cells, algorithm } = bucket.slotsFor(name);
    const { policy, limit, remaining, resetAfterMs } = bucket.look(name, 0, now);
    const at = (slotOf.get(name) ?? 0) * algorithm.width;
    const found = resetAfterMs > 0;
    const ttlMs = found ? resetAfterMs : null;
    const raw = found ? [...cells.slice(at, at + algorithm.width)].flat() : null;
    return { policy, key, storedKey: name, found, limit, remaining, resetAfterMs, ttlMs, raw };
  }

  clear(): void {
    for (const slots of this.all) slots.clear();
    this.size = 0;
    this.evictions = 0;
  }

  async dispose(): Promise<void> {
    this.clear();
    this.clock = { now: () => refuseDisposed("memoryStore") };
  }

  /** Makes a bucket for a new key, in the place of another one if the store is full. */
  add(slots: Slots, name: string, now: number): number {
    if (this.size >= this.maxKeys) this.evict(now);
    this.size++;
    return slots.add(name);
  }

  private remove(slots: Slots, slot: number): void {
    this.size--;
    slots.remove(slot);
  }

  /**
   * Gives up the fullest bucket of a random few. Least recently used would be a bypass: whoever is
   * denied could send new keys until the store has forgotten the denial.
   */
  private evict(now: number): void {
    let [fullest, fullestSlot, least] = [this.all[0] as Slots, 0, 2];
    for (let i = 0; i < CANDIDATES; i++) {
      const [slots, slot] = this.draw();
      const usage = slots.usage(slot, now);
      if (usage < least) [fullest, fullestSlot, least] = [slots, slot, usage];
    }
    if (least > 0) this.evictions++;
    this.remove(fullest, fullestSlot);
  }

  /** A bucket at random; every one is as likely, whatever its policy. */
  private draw(): [Slots, number] {
    let slot = Math.floor(Math.random() * this.size);
    for (const slots of this.all) {
      if (slot < slots.keys.length) return [slots, slot];
      slot -= slots.keys.length;
    }
    return [this.all[0] as Slots, 0];
  }
}

/** The buckets of one policy; names are keys as they are stored. */
class PolicyBuckets implements Buckets {
  private readonly memory: Memory;
  private readonly terms: Terms;
  private readonly shards: readonly Slots[];
  private readonly seed: number;
  /** The only one, when there is one. */
  private readonly whole: Slots | undefined;

  constructor(memory: Memory, shards: readonly Slots[], terms: Terms, seed: number) {
    this.memory = memory;
    this.shards = shards;
    this.terms = terms;
    this.seed = seed;
    this.whole = shards.length === 1 ? shards[0] : undefined;
  }

  /** Takes from the bucket of a key. A long key is not found by itself, and then by its tag. */
  take(key: string, cost: number, now: number = this.memory.clock.now()): Decision {
    const { slotOf, cells, algorithm } = this.whole ?? this.shardFor(key);
    const slot = slotOf.get(key);
    // Engines inline only so much code along one path, so that all that is rare stands apart from it.
    if (slot === undefined || !algorithm.take) return this.takeOtherwise(key, cost, now);
    return algorithm.take(cells, slot * algorithm.width, this.terms, cost, now);
  }

  /** The first charge of a key, or one of an algorithm without a fast way. */
  private takeOtherwise(key: string, cost: number, now: number): Decision {
    const name = storedKey(key);
    const slots = this.slotsFor(name);
    let slot = slots.slotOf.get(name);
    if (slot === undefined) {
      // What takes nothing makes no bucket.
      if (cost === 0 || cost > this.terms.limit) {
        const decision = this.look(name, cost, now);
        return decision.allowed ? recordGrant(decision, now) : decision;
      }
      slot = this.memory.add(slots, name, now);
    }
    return take(slots.algorithm, slots.cells, slot * slots.algorithm.width, this.terms, cost, now);
  }

  look(name: string, cost: number, now: number): Decision {
    const { slotOf, cells, algorithm } = this.slotsFor(name);
    const slot = slotOf.get(name);
    if (slot !== undefined) return peek(algorithm, cells, slot * algorithm.width, this.terms, cost, now);
    return peek(algorithm, algorithm.list ? [[]] : UNTOUCHED, 0, this.terms, cost, now);
  }

  /** What a charge that fails with its group gets: a look, and the healing of a denial. */
  deny(name: string, cost: number, now: number): Decision {
    const { slotOf, cells, algorithm } = this.slotsFor(name);
    const slot = slotOf.get(name);
    if (slot !== undefined) heal(algorithm, cells, slot * algorithm.width, this.terms, cost, now);
    return this.look(name, cost, now);
  }

  fits(name: string, cost: number, now: number): boolean {
    const { slotOf, cells, algorithm } = this.slotsFor(name);
    const slot = slotOf.get(name);
    if (slot === undefined) return cost <= this.terms.limit;
    return fits(algorithm, cells, slot * algorithm.width, this.terms, cost, now);
  }

  giveBack(name: string, cost: number, now: number, grantEndsAt: number | undefined): void {
    const { slotOf, cells, algorithm } = this.slotsFor(name);
    const slot = slotOf.get(name);
    if (slot !== undefined) refund(algorithm, cells, slot * algorithm.width, this.terms, cost, now, grantEndsAt);
  }

  /** The slots that a key belongs to, whether it is there or not. */
  slotsFor(name: string): Slots {
    return this.whole ?? this.shardFor(name);
  }

  private shardFor(name: string): Slots {
    let hash = this.seed;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    return this.shards[(hash ^ (hash >>> 13)) & (this.shards.length - 1)] as Slots;
  }
}
