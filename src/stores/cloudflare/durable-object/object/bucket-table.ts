/**
 * The buckets of one Durable Object: rows in its SQLite database, with a cache in memory. Everything is synchronous, so no
 * other call runs between the read and the write of a bucket.
 *
 * `kept_until` is rounded up: a bucket in constant use moves in the index only now and then, not with every grant.
 */

import type { Algorithm } from "../../../../core/compiled-policy.ts";
import { isHeldState, type State } from "../../../../core/state.ts";
import type { DurableObjectStorageLike } from "../../platform.ts";
import { formatState, isStateOf, parseState, stateSize } from "./state-text.ts";

/** `kept_until` is a multiple of this, so alarms are at least this far apart. */
const KEPT_UNTIL_STEP_MS = 5000;
/** Fraction of its time to full by which a row is kept longer than needed; at least one step. */
const EXTRA_TIME = 1 / 8;
/** Maximum size of the cache, in numbers of bucket states. */
const MAX_CACHED_NUMBERS = 100_000;
/** The cost of a cached bucket besides its state, in numbers. */
const ENTRY_OVERHEAD = 16;
/** Maximum number of rows that one alarm deletes, because calls wait for it. */
const MAX_DELETED_PER_ALARM = 10_000;
/** The number is the version of the row format. Tables of other versions are dropped because they can't be read. */
const TABLE = "sluice_buckets_1";

interface Bucket {
  readonly state: State;
  /** When its row may be deleted, in milliseconds since the epoch. */
  readonly keptUntil: number;
}

/** States to write by stored key, and when each expires in milliseconds since the epoch. An empty state deletes its row. */
export type Changes = Map<string, { readonly state: State; readonly expires: number }>;

/** Buckets by stored key. */
export class BucketTable {
  private readonly storage: DurableObjectStorageLike;
  /** The buckets that were loaded or written last. Not a `BoundedMap`, because a log of 10 000 grants is one entry. */
  private readonly cache: Map<string, Bucket> = new Map();
  private cachedNumbers = 0;
  /** Whether the table exists. It is created with the first grant. */
  private exists: boolean;

  constructor(storage: DurableObjectStorageLike) {
    this.storage = storage;
    this.exists = false;
    for (const { name } of this.selectTables("name LIKE 'sluice_buckets_%'")) {
      if (name === TABLE) this.exists = true;
      else if (/^sluice_buckets_\d+$/.test(String(name))) storage.sql.exec(`DROP TABLE "${name}"`);
    }
  }

  /** Returns the state of a bucket, or `undefined` if there is none that the algorithm can read. */
  read(bucket: string, algorithm: Algorithm): State | undefined {
    const cached = this.cache.get(bucket);
    if (cached) return isStateOf(cached.state, algorithm) ? cached.state : undefined;
    const row = this.readRow(bucket);
    const state = parseState(row?.raw, algorithm);
    if (row && state) this.addToCache(bucket, { state, keptUntil: row.keptUntil });
    return state;
  }

  /** Writes buckets, all or none, and returns when the first of them may be deleted. */
  write(changes: Changes, now: number): number {
    let firstExpiry = Number.POSITIVE_INFINITY;
    const written = new Map<string, Bucket | undefined>();
    if (!this.exists) {
      if ([...changes.values()].every(({ state }) => isEmpty(state))) return firstExpiry;
      this.createTable();
    }
    this.storage.transactionSync(() => {
      for (const [bucket, { state, expires }] of changes) {
        const row = this.writeRow(bucket, state, expires, now);
        written.set(bucket, row);
        if (row) firstExpiry = Math.min(firstExpiry, row.keptUntil);
      }
    });
    // Update the cache after the transaction, which may throw and roll back.
    for (const [bucket, row] of written) {
      this.removeFromCache(bucket);
      if (row) this.addToCache(bucket, row);
    }
    return firstExpiry;
  }

  private writeRow(bucket: string, state: State, expires: number, now: number): Bucket | undefined {
    const { sql } = this.storage;
    if (isEmpty(state)) {
      sql.exec(`DELETE FROM ${TABLE} WHERE bucket = ?`, bucket);
      return undefined;
    }
    const text = formatState(state);
    const { keptUntil = 0 } = this.cache.get(bucket) ?? {};
    if (expires <= keptUntil) {
      sql.exec(`UPDATE ${TABLE} SET state = ? WHERE bucket = ?`, text, bucket);
      return { state, keptUntil };
    }
    const extraMs = Math.max(KEPT_UNTIL_STEP_MS, (expires - now) * EXTRA_TIME);
    const newKeptUntil = Math.ceil((expires + extraMs) / KEPT_UNTIL_STEP_MS) * KEPT_UNTIL_STEP_MS;
    sql.exec(
      `INSERT INTO ${TABLE} VALUES (?1, ?2, ?3)
       ON CONFLICT (bucket) DO UPDATE SET state = ?2, kept_until = ?3`,
      bucket,
      text,
      newKeptUntil,
    );
    return { state, keptUntil: newKeptUntil };
  }

  /** Returns the row of a bucket as it is stored. */
  readRow(bucket: string): { raw: string; keptUntil: number } | undefined {
    if (!this.exists) return undefined;
    const query = `SELECT state, kept_until FROM ${TABLE} WHERE bucket = ?`;
    const [row] = this.storage.sql.exec(query, bucket).toArray();
    return row && { raw: String(row.state), keptUntil: Number(row.kept_until) };
  }

  /** Deletes expired rows by the index, and returns when the next row expires; `undefined` if there is none. */
  deleteExpired(now: number): number | undefined {
    if (!this.exists) return undefined;
    const { sql } = this.storage;
    const deleted = sql
      .exec(
        `DELETE FROM ${TABLE} WHERE bucket IN
           (SELECT bucket FROM ${TABLE} WHERE kept_until <= ? ORDER BY kept_until LIMIT ?) RETURNING bucket`,
        now,
        MAX_DELETED_PER_ALARM,
      )
      .toArray();
    for (const { bucket } of deleted) this.removeFromCache(bucket as string);
    const [next] = sql.exec(`SELECT min(kept_until) AS first_expiry FROM ${TABLE}`).toArray();
    return typeof next?.first_expiry === "number" ? next.first_expiry : undefined;
  }

  /** Deletes the storage of an object without buckets, unless a derived class keeps other tables in it. */
  async deleteStorage(): Promise<void> {
    const others = this.selectTables(`name <> '${TABLE}' AND name <> '_cf_METADATA'`);
    if (others.length > 0) return;
    this.exists = false;
    this.cache.clear();
    this.cachedNumbers = 0;
    // Both in one turn: a grant written in between would be lost. Before 2026, deleteAll() kept the alarm.
    await Promise.all([this.storage.deleteAlarm(), this.storage.deleteAll()]);
  }

  private selectTables(where: string): Record<string, unknown>[] {
    return this.storage.sql.exec(`SELECT name FROM sqlite_master WHERE type = 'table' AND ${where}`).toArray();
  }

  private createTable(): void {
    const { sql } = this.storage;
    sql.exec(
      `CREATE TABLE IF NOT EXISTS ${TABLE} (bucket TEXT PRIMARY KEY, state TEXT, kept_until INTEGER) WITHOUT ROWID`,
    );
    sql.exec(`CREATE INDEX IF NOT EXISTS ${TABLE}_by_time ON ${TABLE} (kept_until)`);
    this.exists = true;
  }

  private addToCache(bucket: string, row: Bucket): void {
    this.cache.set(bucket, row);
    this.cachedNumbers += ENTRY_OVERHEAD + stateSize(row.state);
    for (const oldest of this.cache.keys()) {
      if (this.cachedNumbers <= MAX_CACHED_NUMBERS) return;
      this.removeFromCache(oldest);
    }
  }

  private removeFromCache(bucket: string): void {
    const cached = this.cache.get(bucket);
    if (!cached) return;
    this.cache.delete(bucket);
    this.cachedNumbers -= ENTRY_OVERHEAD + stateSize(cached.state);
  }
}

/** Whether a state has nothing to store. */
function isEmpty(state: State): boolean {
  return !isHeldState(state) && state.length === 0;
}
