/** The entries of one Durable Object: rows in its SQLite database. Everything but the alarm is synchronous. */
import type { Entry, Step } from "../../../idempotency/entry.ts";
import { formatEntry, parseEntry } from "../../../idempotency/entry-text.ts";
import { foreignValue } from "../../../idempotency/response-text.ts";
import type { DurableObjectStorageLike } from "../platform.ts";

/** The number is the version of the row format. Tables of other versions are dropped because they can't be read. */
const TABLE = "sluice_idempotency_1";
/** Alarms are due at multiples of this, so that entries which expire together are deleted together. */
const ALARM_STEP_MS = 5000;
/** Maximum number of rows that one alarm deletes, because calls wait for it. */
const MAX_DELETED_PER_ALARM = 1000;

/** Entries by stored name, and the alarm that deletes them when they expire. */
export class EntryTable {
  private readonly storage: DurableObjectStorageLike;
  /** Whether the table exists. It is created with the first claim. */
  private exists = false;
  /** When the alarm is due, in milliseconds since the epoch; `null` if none is set. */
  private alarmAt: number | null = null;

  constructor(storage: DurableObjectStorageLike) {
    this.storage = storage;
    for (const { name } of this.selectTables("name LIKE 'sluice_idempotency_%'")) {
      if (name === TABLE) this.exists = true;
      else if (/^sluice_idempotency_\d+$/.test(String(name))) storage.sql.exec(`DROP TABLE "${name}"`);
    }
  }

  /** Reads the alarm that an earlier instance has set: alarms outlive the memory of an object. */
  async loadAlarm(): Promise<void> {
    this.alarmAt = await this.storage.getAlarm();
  }

  /** Takes one step on an entry. Read and write happen in one turn, so no other call runs in between. */
  async step<Result>(
    name: string,
    now: number,
    take: (entry: Entry<string> | undefined) => Step<Result, string>,
  ): Promise<Result> {
    const { result, write } = take(this.read(name, now));
    if (write === null) this.storage.sql.exec(`DELETE FROM ${TABLE} WHERE name = ?`, name);
    if (write) {
      if (!this.exists) this.createTable();
      const expiresAt = now + write.ttlMs;
      this.storage.sql.exec(
        `INSERT INTO ${TABLE} VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET value = ?2, expires_at = ?3`,
        name,
        formatEntry(write.entry),
        expiresAt,
      );
      // Set the alarm in the same turn: row and alarm are then stored together or not at all.
      await this.setAlarmBy(expiresAt);
    }
    return result;
  }

  /** Deletes expired entries. An object without entries keeps no alarm and no storage, so it is not billed. */
  async deleteExpired(now: number): Promise<void> {
    this.alarmAt = null;
    const next = this.exists ? this.deleteRows(now) : undefined;
    if (next === undefined) await this.deleteStorage();
    // An alarm may ring early, or leave rows behind.
    else await this.setAlarmBy(Math.max(next, now + 1));
  }

  private read(name: string, now: number): Entry<string> | undefined {
    if (!this.exists) return undefined;
    const query = `SELECT value FROM ${TABLE} WHERE name = ? AND expires_at > ?`;
    const [row] = this.storage.sql.exec(query, name, now).toArray();
    if (!row) return undefined;
    const entry = parseEntry(String(row.value));
    if (!entry) throw foreignValue();
    return entry;
  }

  /** Returns when the next row expires; `undefined` if there is none. */
  private deleteRows(now: number): number | undefined {
    const { sql } = this.storage;
    sql.exec(
      `DELETE FROM ${TABLE} WHERE name IN
         (SELECT name FROM ${TABLE} WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
      now,
      MAX_DELETED_PER_ALARM,
    );
    const [next] = sql.exec(`SELECT min(expires_at) AS first_expiry FROM ${TABLE}`).toArray();
    return typeof next?.first_expiry === "number" ? next.first_expiry : undefined;
  }

  /** Deletes the storage of an object without entries, unless a derived class keeps other tables in it. */
  private async deleteStorage(): Promise<void> {
    if (this.selectTables(`name <> '${TABLE}' AND name <> '_cf_METADATA'`).length > 0) return;
    this.exists = false;
    // Both in one turn: a claim written in between would be lost. Before 2026, deleteAll() kept the alarm.
    await Promise.all([this.storage.deleteAlarm(), this.storage.deleteAll()]);
  }

  /** Sets the alarm, unless one is due by then. */
  private async setAlarmBy(time: number): Promise<void> {
    const due = Math.ceil(time / ALARM_STEP_MS) * ALARM_STEP_MS;
    if (this.alarmAt !== null && this.alarmAt <= due) return;
    this.alarmAt = due;
    await this.storage.setAlarm(due);
  }

  private createTable(): void {
    const { sql } = this.storage;
    sql.exec(`CREATE TABLE IF NOT EXISTS ${TABLE} (name TEXT PRIMARY KEY, value TEXT, expires_at INTEGER)`);
    sql.exec(`CREATE INDEX IF NOT EXISTS ${TABLE}_by_time ON ${TABLE} (expires_at)`);
    this.exists = true;
  }

  private selectTables(where: string): Record<string, unknown>[] {
    return this.storage.sql.exec(`SELECT name FROM sqlite_master WHERE type = 'table' AND ${where}`).toArray();
  }
}
