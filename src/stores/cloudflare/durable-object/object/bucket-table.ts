/**
 * The buckets of one Durable Object: rows of its SQLite, and the hot ones in memory as well. Everything here is
 * synchronous: between the reading and the writing of a bucket nobody else gets a turn.
 *
 * A row says until when it has to be kept. That time is rounded up, so that a bucket which is used all the time has
 * its place in the index moved once in a while, and not with every grant.
 */

import { isState } from "../../../../algorithms/algorithm.ts";
import { algorithms } from "../../../../algorithms/algorithms.ts";
import type { AlgorithmName } from "../../../../core/policy.ts";
import type { DurableObjectStorageLike } from "../../platform.ts";
import { readState, stateText } from "./state-text.ts";

/** What is kept is kept until a multiple of this, so that alarms are at least as far apart. */
const GRAIN_MS = 5000;
/** By this part of its time to full a bucket is kept longer than it has to be, and at least by the grain. */
const SPARE = 1 / 8;
/** So many numbers are held in memory, of the buckets that were read or written last. */
const MAX_NUMBERS = 100_000;
/** What a bucket costs besides its numbers, in numbers. */
const OVERHEAD = 16;
/** So many rows are forgotten in one go, so that nobody waits for it long. */
const MAX_EXPIRED_PER_ALARM = 10_000;
/** Changes with the form of the rows. Tables of other versions are dropped: what they hold can't be read. */
const TABLE = "sluice_buckets_1";

/** A bucket and until when it is kept. */
interface Row {
  readonly state: readonly number[];
  readonly keptUntil: number;
}

/** States to write by bucket, and until when each has to be kept. An empty state deletes its bucket. */
export type Changes = Map<string, { readonly state: readonly number[]; readonly expires: number }>;

/** Buckets by the name that they are stored under. */
export class BucketTable {
  private readonly storage: DurableObjectStorageLike;
  private readonly hot: Map<string, Row> = new Map();
  private numbers = 0;
  /** Whether there is a table: an object that has granted nothing has none. */
  private exists: boolean;

  constructor(storage: DurableObjectStorageLike) {
    this.storage = storage;
    this.exists = false;
    for (const { name } of this.tables("name LIKE 'sluice_buckets_%'")) {
      if (name === TABLE) this.exists = true;
      else if (/^sluice_buckets_\d+$/.test(String(name))) storage.sql.exec(`DROP TABLE "${name}"`);
    }
  }

  /** The state of a bucket, if it has one that the algorithm can read. */
  read(bucket: string, algorithm: AlgorithmName): readonly number[] | undefined {
    const row = this.hot.get(bucket);
    if (row) return isState(row.state, algorithms[algorithm]) ? row.state : undefined;
    const found = this.show(bucket);
    const state = readState(found?.raw, algorithm);
    if (found && state) this.keep(bucket, { state, keptUntil: found.keptUntil });
    return state;
  }

  /** Writes the states of some buckets, all of them or none, and says when the first of them may be forgotten. */
  write(changes: Changes, now: number): number {
    let soonest = Number.POSITIVE_INFINITY;
    const rows = new Map<string, Row | undefined>();
    if (!this.exists) this.create();
    this.storage.transactionSync(() => {
      for (const [bucket, { state, expires }] of changes) {
        const row = this.writeOne(bucket, state, expires, now);
        rows.set(bucket, row);
        if (row) soonest = Math.min(soonest, row.keptUntil);
      }
    });
    // Memory follows what was written, never the other way round.
    for (const [bucket, row] of rows) {
      this.drop(bucket);
      if (row) this.keep(bucket, row);
    }
    return soonest;
  }

  private writeOne(bucket: string, state: readonly number[], expires: number, now: number): Row | undefined {
    const { sql } = this.storage;
    // A full bucket is one that was never used.
    if (state.length === 0) {
      sql.exec(`DELETE FROM ${TABLE} WHERE bucket = ?`, bucket);
      return undefined;
    }
    const text = stateText(state);
    const { keptUntil = 0 } = this.hot.get(bucket) ?? {};
    if (expires <= keptUntil) {
      sql.exec(`UPDATE ${TABLE} SET state = ? WHERE bucket = ?`, text, bucket);
      return { state, keptUntil };
    }
    const spare = Math.max(GRAIN_MS, (expires - now) * SPARE);
    const later = Math.ceil((expires + spare) / GRAIN_MS) * GRAIN_MS;
    sql.exec(
      `INSERT INTO ${TABLE} VALUES (?1, ?2, ?3)
       ON CONFLICT (bucket) DO UPDATE SET state = ?2, kept_until = ?3`,
      bucket,
      text,
      later,
    );
    return { state, keptUntil: later };
  }

  /** Forgets a bucket. */
  remove(bucket: string): void {
    if (this.exists) this.write(new Map([[bucket, { state: [], expires: 0 }]]), 0);
  }

  /** The row of a bucket as it is stored. */
  show(bucket: string): { raw: string; keptUntil: number } | undefined {
    if (!this.exists) return undefined;
    const query = `SELECT state, kept_until FROM ${TABLE} WHERE bucket = ?`;
    const [found] = this.storage.sql.exec(query, bucket).toArray();
    return found && { raw: String(found.state), keptUntil: Number(found.kept_until) };
  }

  /** Forgets what has to be kept no longer, by the index alone, and says when to come again; never, if nothing is left. */
  expire(now: number): number | undefined {
    if (!this.exists) return undefined;
    const { sql } = this.storage;
    const gone = sql
      .exec(
        `DELETE FROM ${TABLE} WHERE bucket IN
           (SELECT bucket FROM ${TABLE} WHERE kept_until <= ? ORDER BY kept_until LIMIT ?) RETURNING bucket`,
        now,
        MAX_EXPIRED_PER_ALARM,
      )
      .toArray();
    for (const { bucket } of gone) this.drop(bucket as string);
    const [next] = sql.exec(`SELECT min(kept_until) AS soonest FROM ${TABLE}`).toArray();
    return typeof next?.soonest === "number" ? next.soonest : undefined;
  }

  /** Gives up the storage of an object that has no buckets, unless a class derived from ours keeps something there. */
  async vanish(): Promise<void> {
    const others = this.tables(`name <> '${TABLE}' AND name <> '_cf_METADATA'`);
    if (others.length > 0) return;
    this.exists = false;
    this.hot.clear();
    this.numbers = 0;
    // In one turn, so that no grant can come in between and be lost. Runtimes of before 2026 keep what they know of an
    // alarm unless they are told.
    await Promise.all([this.storage.deleteAlarm(), this.storage.deleteAll()]);
  }

  private tables(where: string): Record<string, unknown>[] {
    return this.storage.sql.exec(`SELECT name FROM sqlite_master WHERE type = 'table' AND ${where}`).toArray();
  }

  private create(): void {
    const { sql } = this.storage;
    sql.exec(
      `CREATE TABLE IF NOT EXISTS ${TABLE} (bucket TEXT PRIMARY KEY, state TEXT, kept_until INTEGER) WITHOUT ROWID`,
    );
    sql.exec(`CREATE INDEX IF NOT EXISTS ${TABLE}_by_time ON ${TABLE} (kept_until)`);
    this.exists = true;
  }

  private keep(bucket: string, row: Row): void {
    this.hot.set(bucket, row);
    this.numbers += OVERHEAD + row.state.length;
    for (const oldest of this.hot.keys()) {
      if (this.numbers <= MAX_NUMBERS) return;
      this.drop(oldest);
    }
  }

  private drop(bucket: string): void {
    const row = this.hot.get(bucket);
    if (!row) return;
    this.hot.delete(bucket);
    this.numbers -= OVERHEAD + row.state.length;
  }
}
