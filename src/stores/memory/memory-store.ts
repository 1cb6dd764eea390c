/** Buckets in this process's memory: synchronous, bounded, without timers. */
import type { Charge, Group, Mode } from "../../core/charge.ts";
import { type Clock, readClock, systemClock } from "../../core/clock.ts";
import type { Decision, Inspection } from "../../core/decision.ts";
import { refuseDisposed, SluiceError } from "../../core/errors.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import type { Buckets, SyncStore } from "../../core/store.ts";
import type { Terms } from "../../core/terms.ts";
import { storedKey } from "./long-key.ts";
import type { Slots } from "./slots.ts";
import { Table } from "./table.ts";

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

/** Keeps buckets in memory: exact for this process, and only for it. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  if (Object.hasOwn(options ?? {}, "policy")) {
    const expected = "no policy here: createLimiter({ policy, store: memoryStore() }) or memoryRateLimiter(policy)";
    throw new SluiceError({ code: "unknown-option", option: "policy", expected });
  }
  checkOptions("memoryStore", options, ["clock", "maxKeys"]);
  const { clock = systemClock(), maxKeys = 100_000 } = options;
  checkWhole("maxKeys", maxKeys, 1, MOST_KEYS);
  if (typeof clock?.now !== "function") {
    throw new SluiceError({ code: "invalid-option", option: "clock", received: clock, expected: "an object with now()" });
  }
  return new Memory(clock, maxKeys);
}

/** Members of classes here are private by type only: on some engines a real private field costs as much as the arithmetic. */
class Memory implements MemoryStore {
  readonly consistency = "exact";
  evictions = 0;
  private clock: Clock;
  private readonly maxKeys: number;
  private readonly tables: Table[] = [];
  private readonly byBucket: Map<string, Table> = new Map();

  constructor(clock: Clock, maxKeys: number) {
    this.clock = clock;
    this.maxKeys = maxKeys;
  }

  get size(): number {
    let size = 0;
    for (const table of this.tables) size += table.size;
    return size;
  }

  now(): number {
    return readClock(this.clock);
  }

  open(terms: Terms): Buckets {
    return new PolicyBuckets(this, this.tableOf(terms), terms);
  }

  takeAll(buckets: readonly PolicyBuckets[], key: string, cost: number): Decision[] {
    const now = this.now();
    const name = storedKey(key);
    let every = true;
    let known = true;
    for (const bucket of buckets) {
      every = bucket.finds(name, cost, now) && every;
      known = bucket.slot !== undefined && known;
    }
    const decisions: Decision[] = [];
    for (const { table, terms, slots, slot } of buckets) {
      // A new key may move others to other slots, so that only known ones stay where they were found.
      if (every && !known) decisions.push(this.spend(table, terms, name, cost, now));
      else if (slot === undefined) decisions.push(table.algorithm.peek(table.untouched, 0, terms, cost, now));
      else if (every) decisions.push(table.algorithm.take(slots.cells(slot), slots.at(slot), terms, cost, now));
      else decisions.push(table.algorithm.peek(slots.cells(slot), slots.at(slot), terms, cost, now));
    }
    return decisions;
  }

  takeSync(group: Group): Decision[] {
    const now = this.now();
    const every = group.length === 1 || group.every((charge) => this.fits(charge, now));
    return group.map((charge) => this.step(charge, every ? charge.mode : "peek", now));
  }

  async take(groups: readonly Group[]): Promise<Decision[][]> {
    return groups.map((group) => this.takeSync(group));
  }

  async reset(terms: Terms, key: string): Promise<void> {
    this.now();
    this.tableOf(terms).forget(storedKey(key));
  }

  async inspect(terms: Terms, key: string): Promise<Inspection> {
    const now = this.now();
    const storedAs = storedKey(key);
    const raw = this.tableOf(terms).copy(storedAs, now);
    const { limit, remaining, resetAfterMs } = this.step({ terms, key, cost: 0, mode: "peek" }, "peek", now);
    const found = raw !== null;
    return { policy: terms.name, key, storedKey: storedAs, found, limit, remaining, resetAfterMs, ttlMs: found ? resetAfterMs : null, raw };
  }

  clear(): void {
    for (const table of this.tables) table.clear();
    this.evictions = 0;
  }

  async dispose(): Promise<void> {
    this.clear();
    // Every call reads the clock first, so this is the one place that ends them all.
    this.clock = { now: () => refuseDisposed("memoryStore") };
  }

  private tableOf(terms: Terms): Table {
    let table = this.byBucket.get(terms.bucket);
    if (!table) {
      table = new Table(terms, this.maxKeys);
      this.byBucket.set(terms.bucket, table);
      this.tables.push(table);
    }
    if (terms.windowMs > table.terms.windowMs) table.terms = terms;
    return table;
  }

  private fits({ terms, key, cost, mode }: Charge, now: number): boolean {
    return mode === "refund" || this.tableOf(terms).fits(terms, storedKey(key), cost, now);
  }

  private step({ terms, key, cost }: Charge, mode: Mode, now: number): Decision {
    const table = this.tableOf(terms);
    const name = storedKey(key);
    if (mode === "take") return this.spend(table, terms, name, cost, now);
    if (mode === "refund") table.refund(terms, name, cost, now);
    return table.peek(terms, name, mode === "refund" ? 0 : cost, now);
  }
  
  spend(table: Table, terms: Terms, name: string, cost: number, now: number): Decision {
    const slots = table.slotsOf(name);
    const slot = slots.slotOf.get(name);
    if (slot === undefined) return this.spendFirst(table, slots, terms, name, cost, now);
    return table.algorithm.take(slots.cells(slot), slots.at(slot), terms, cost, now);
  }

  private spendFirst(table: Table, slots: Slots, terms: Terms, name: string, cost: number, now: number): Decision {
    // What takes nothing makes no bucket.
    if (cost === 0 || cost > terms.limit) return table.algorithm.peek(table.untouched, 0, terms, cost, now);
    if (this.size >= this.maxKeys) this.evict(now);
    const slot = table.add(slots, name);
    return table.algorithm.take(slots.cells(slot), slots.at(slot), terms, cost, now);
  }

  /**
   * Gives up the fullest bucket of a random few. Least recently used would be a bypass: whoever is
   * denied could send new keys until the store has forgotten the denial.
   */
  private evict(now: number): void {
    let fullest: { table: Table; slots: Slots; slot: number } | undefined;
    let least = 2;
    for (let i = 0; i < CANDIDATES || !fullest; i++) {
      const table = this.someTable();
      const slots = table.someSlots();
      if (slots.size === 0) continue;
      const slot = Math.floor(Math.random() * slots.size);
      const usage = table.usage(slots, slot, now);
      if (usage >= least) continue;
      least = usage;
      fullest = { table, slots, slot };
    }
    if (least > 0) this.evictions++;
    fullest.table.remove(fullest.slots, fullest.slot);
  }

  /** A table drawn by the number of its keys, so that every key is as likely a candidate. */
  private someTable(): Table {
    let at = Math.random() * this.size;
    for (const table of this.tables) {
      if (at < table.size) return table;
      at -= table.size;
    }
    return this.tables[0] as Table;
  }
}

class PolicyBuckets implements Buckets {
  readonly table: Table;
  readonly terms: Terms;
  /** Where `finds` has found the key. */
  slots: Slots;
  slot: number | undefined;
  private readonly memory: Memory;

  constructor(memory: Memory, table: Table, terms: Terms) {
    this.memory = memory;
    this.table = table;
    this.terms = terms;
    this.slots = table.someSlots();
    this.slot = undefined;
  }

  take(key: string, cost: number): Decision {
    return this.memory.spend(this.table, this.terms, storedKey(key), cost, this.memory.now());
  }

  /** Looks the key up and tells whether it could spend `cost`. */
  finds(name: string, cost: number, now: number): boolean {
    const { table, terms } = this;
    const slots = table.slotsOf(name);
    const slot = slots.slotOf.get(name);
    this.slots = slots;
    this.slot = slot;
    return slot === undefined ? cost <= terms.limit : table.algorithm.fits(slots.cells(slot), slots.at(slot), terms, cost, now);
  }
}
