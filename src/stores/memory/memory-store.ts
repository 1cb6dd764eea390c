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
    throw new SluiceError("unknown-option", "policy", expected);
  }
  checkOptions("memoryStore", options, ["clock", "maxKeys"]);
  const { clock = systemClock(), maxKeys = 100_000 } = options;
  checkWhole("maxKeys", maxKeys, 1, MOST_KEYS);
  if (typeof clock?.now !== "function") {
    throw new SluiceError("invalid-option", "clock", "an object with now()", clock);
  }
  return new Memory(clock, maxKeys);
}

/** Members are private by type only: on some engines a real private field costs as much as the arithmetic. */
class Memory implements MemoryStore {
  readonly consistency = "exact";
  evictions = 0;
  /** Every call reads it first. */
  clock: Clock;
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

  open(terms: Terms): Buckets {
    return new PolicyBuckets(this, this.tableOf(terms), terms);
  }

  takeSync(group: Group): Decision[] {
    const now = readClock(this.clock);
    const every = group.length === 1 || group.every((charge) => this.fits(charge, now));
    return group.map((charge) => this.step(charge, every ? charge.mode : "peek", now));
  }

  takeAll(buckets: readonly PolicyBuckets[], key: string, cost: number): Decision[] {
    const now = readClock(this.clock);
    const name = storedKey(key);
    let every = true;
    for (const bucket of buckets) every = bucket.fits(name, cost, now) && every;
    const decisions: Decision[] = [];
    for (const bucket of buckets) decisions.push(every ? bucket.spend(name, cost, now) : bucket.peek(name, cost, now));
    return decisions;
  }

  async take(groups: readonly Group[]): Promise<Decision[][]> {
    return groups.map((group) => this.takeSync(group));
  }

  async reset(terms: Terms, key: string): Promise<void> {
    readClock(this.clock);
    const name = storedKey(key);
    const table = this.tableOf(terms);
    const slots = table.slotsFor(name);
    table.remove(slots, slots.slotOf.get(name));
  }

  async inspect(terms: Terms, key: string): Promise<Inspection> {
    const now = readClock(this.clock);
    const name = storedKey(key);
    const table = this.tableOf(terms);
    const slots = table.slotsFor(name);
    const slot = slots.slotOf.get(name);
    const found = slot !== undefined && table.usage(slots, slot, now) > 0;
    const { limit, remaining, resetAfterMs } = table.answer(terms, name, 0, now, "peek");
    return {
      policy: terms.name,
      key,
      storedKey: name,
      found,
      limit,
      remaining,
      resetAfterMs,
      ttlMs: found ? resetAfterMs : null,
      raw: found ? slots.copy(slot) : null,
    };
  }

  clear(): void {
    for (const table of this.tables) table.clear();
    this.evictions = 0;
  }

  async dispose(): Promise<void> {
    this.clear();
    this.clock = { now: () => refuseDisposed("memoryStore") };
  }

  /** The first charge of a key, which may have to push another one out. */
  spendFirst(table: Table, terms: Terms, key: string, cost: number, now: number): Decision {
    // What takes nothing makes no bucket.
    if (cost === 0 || cost > terms.limit) return table.answer(terms, key, cost, now, "peek");
    if (this.size >= this.maxKeys) this.evict(now);
    const slots = table.slotsFor(key);
    const slot = table.add(slots, key);
    return table.algorithm.take(slots.cells, slot * slots.width, terms, cost, now);
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
    if (mode !== "take") return table.answer(terms, name, cost, now, mode);
    return new PolicyBuckets(this, table, terms).spend(name, cost, now);
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
      const slot = Math.floor(Math.random() * slots.keys.length);
      const usage = slots.keys.length > 0 ? table.usage(slots, slot, now) : least;
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
  private readonly memory: Memory;
  private readonly table: Table;
  private readonly terms: Terms;

  constructor(memory: Memory, table: Table, terms: Terms) {
    this.memory = memory;
    this.table = table;
    this.terms = terms;
  }

  take(key: string, cost: number): Decision {
    return this.spend(storedKey(key), cost, readClock(this.memory.clock));
  }

  spend(key: string, cost: number, now: number): Decision {
    const { table, terms } = this;
    const { slotOf, cells, width } = table.slotsFor(key);
    const slot = slotOf.get(key);
    if (slot === undefined) return this.memory.spendFirst(table, terms, key, cost, now);
    return table.algorithm.take(cells, slot * width, terms, cost, now);
  }

  fits(key: string, cost: number, now: number): boolean {
    return this.table.fits(this.terms, key, cost, now);
  }

  peek(key: string, cost: number, now: number): Decision {
    return this.table.answer(this.terms, key, cost, now, "peek");
  }
}
