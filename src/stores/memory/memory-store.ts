/** Buckets in this process's memory: synchronous, bounded, without timers. */
import type { Charge, Group } from "../../core/charge.ts";
import { type Clock, readClock, systemClock } from "../../core/clock.ts";
import type { Decision, Inspection } from "../../core/decision.ts";
import { SluiceError } from "../../core/errors.ts";
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
/** How many buckets each new key looks at, to forget those that are full again. */
const LOOKS = 2;
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

class Memory implements MemoryStore {
  readonly consistency = "exact";
  evictions = 0;
  readonly #clock: Clock;
  readonly #maxKeys: number;
  readonly #tables: Table[] = [];
  readonly #byBucket: Map<string, Table> = new Map();
  #disposed = false;

  constructor(clock: Clock, maxKeys: number) {
    this.#clock = clock;
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    let size = 0;
    for (const table of this.#tables) size += table.size;
    return size;
  }

  open(terms: Terms): Buckets {
    const table = this.#tableOf(terms);
    return { take: (key, cost) => this.#take(table, terms, key, cost, this.#now()) };
  }

  takeSync(group: readonly Charge[]): Decision[] {
    const now = this.#now();
    if (group.length > 1) {
      const looks = group.map((charge) => this.#look(charge, now));
      if (!looks.every((decision) => decision.allowed)) return looks;
    }
    return group.map((charge) => this.#step(charge, now));
  }

  async take(groups: readonly Group[]): Promise<Decision[][]> {
    return groups.map((group) => this.takeSync(group));
  }

  async reset(terms: Terms, key: string): Promise<void> {
    this.#now();
    const { table, slots, slot } = this.#find(terms, key);
    if (slot >= 0) table.remove(slots, slot);
  }

  async inspect(terms: Terms, key: string): Promise<Inspection> {
    const now = this.#now();
    const { table, slots, slot } = this.#find(terms, key);
    const found = slot >= 0 && table.usage(slots, slot, now) > 0;
    const { limit, remaining, resetAfterMs } = this.#look({ terms, key, cost: 0, mode: "peek" }, now);
    return {
      policy: terms.name,
      key,
      storedKey: storedKey(key),
      found,
      limit,
      remaining,
      resetAfterMs,
      ttlMs: found ? resetAfterMs : null,
      raw: found ? slots.copy(slot) : null,
    };
  }

  clear(): void {
    for (const table of this.#tables) table.clear();
    this.evictions = 0;
  }

  async dispose(): Promise<void> {
    this.clear();
    this.#disposed = true;
  }

  #now(): number {
    if (this.#disposed) throw new SluiceError({ code: "disposed", option: "memoryStore", expected: "a store in use" });
    return readClock(this.#clock);
  }

  #tableOf(terms: Terms): Table {
    let table = this.#byBucket.get(terms.bucket);
    if (!table) {
      table = new Table(terms, this.#maxKeys);
      this.#byBucket.set(terms.bucket, table);
      this.#tables.push(table);
    }
    if (terms.windowMs > table.terms.windowMs) table.terms = terms;
    return table;
  }

  #find(terms: Terms, key: string): { table: Table; slots: Slots; slot: number } {
    const table = this.#tableOf(terms);
    const name = storedKey(key);
    const slots = table.slotsOf(name);
    return { table, slots, slot: slots.find(name) };
  }

  #take(table: Table, terms: Terms, key: string, cost: number, now: number): Decision {
    const { algorithm } = table;
    const name = storedKey(key);
    const slots = table.slotsOf(name);
    let slot = slots.find(name);
    if (slot < 0) {
      // What takes nothing makes no bucket.
      if (cost === 0 || cost > terms.limit) return algorithm.peek(table.untouched, 0, terms, cost, now);
      this.#makeRoom(table, slots, now);
      slot = table.add(slots, name);
    }
    return algorithm.take(slots.cells(slot), slots.at(slot), terms, cost, now);
  }

  /** What a charge would be answered, taking nothing. */
  #look({ terms, key, cost, mode }: Charge, now: number): Decision {
    const { table, slots, slot } = this.#find(terms, key);
    const spent = mode === "refund" ? 0 : cost;
    if (slot < 0) return table.algorithm.peek(table.untouched, 0, terms, spent, now);
    return table.algorithm.peek(slots.cells(slot), slots.at(slot), terms, spent, now);
  }

  #step(charge: Charge, now: number): Decision {
    const { terms, key, cost, mode } = charge;
    if (mode === "take") return this.#take(this.#tableOf(terms), terms, key, cost, now);
    if (mode === "refund") {
      const { table, slots, slot } = this.#find(terms, key);
      if (slot >= 0) table.algorithm.refund(slots.cells(slot), slots.at(slot), terms, cost, now);
    }
    return this.#look(charge, now);
  }

  /** Before a new key: forgets a few buckets that are full again, and gives one up if the store is full. */
  #makeRoom(table: Table, slots: Slots, now: number): void {
    for (let i = 0; i < LOOKS && slots.size > 0; i++) {
      if (slots.hand >= slots.size) slots.hand = 0;
      if (table.usage(slots, slots.hand, now) > 0) slots.hand++;
      else table.remove(slots, slots.hand);
    }
    if (this.size >= this.#maxKeys) this.#evict(now);
  }

  /**
   * Gives up the fullest bucket of a random few. Least recently used would be a bypass: whoever is
   * denied could send many new keys until the store has forgotten the denial.
   */
  #evict(now: number): void {
    let worst: Table | undefined;
    let worstSlots: Slots | undefined;
    let worstSlot = 0;
    let least = 2;
    for (let i = 0; i < CANDIDATES; i++) {
      const table = this.#someTable();
      const slots = table.someSlots();
      if (slots.size === 0) continue;
      const slot = Math.floor(Math.random() * slots.size);
      const usage = table.usage(slots, slot, now);
      if (usage >= least) continue;
      [worst, worstSlots, worstSlot, least] = [table, slots, slot, usage];
    }
    if (!worst || !worstSlots) return this.#evict(now);
    if (least > 0) this.evictions++;
    worst.remove(worstSlots, worstSlot);
  }

  /** A table drawn by the number of its keys, so that every key is as likely a candidate. */
  #someTable(): Table {
    let at = Math.random() * this.size;
    for (const table of this.#tables) {
      if (at < table.size) return table;
      at -= table.size;
    }
    return this.#tables[0] as Table;
  }
}
