/** The Durable Object classes of the tests. */
import { DurableObject } from "cloudflare:workers";
import { RateLimiterDO } from "sluice/cloudflare";
import { rateLimiterObject } from "../../../src/stores/cloudflare/durable-object/object/rate-limiter-do.ts";
import type { ApplyCall } from "../../../src/stores/cloudflare/durable-object/wire/calls.ts";
import type { ApplyReply, WireDecision } from "../../../src/stores/cloudflare/durable-object/wire/replies.ts";

/** The state of an object. */
export interface ObjectState {
  rows: number;
  alarm: number | null;
  tables: string[];
  /** Random number of the instance. After a restart it differs. */
  instanceId: number;
}

/** The class under test, with methods to inspect and crash it. */
export class Objects extends RateLimiterDO {
  declare ctx: {
    abort(reason: string): never;
    storage: {
      sql: { exec(query: string, ...values: unknown[]): { toArray(): Record<string, unknown>[] } };
      getAlarm(): Promise<number | null>;
      setAlarm(time: number): Promise<void>;
    };
  };
  instanceId: number = Math.random();

  /** Restarts the object without its memory, as when Cloudflare moves it. */
  async crash(): Promise<void> {
    this.ctx.abort("crashed by a test");
  }

  async getState(): Promise<ObjectState> {
    const { sql } = this.ctx.storage;
    const tables = sql
      .exec("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray()
      .map(({ name }) => String(name));
    const buckets = tables.find((name) => name === "sluice_buckets_1");
    const rows = buckets ? Number(sql.exec(`SELECT count(*) AS n FROM ${buckets}`).toArray()[0]?.n) : 0;
    return { rows, alarm: await this.ctx.storage.getAlarm(), tables, instanceId: this.instanceId };
  }

  async sql(query: string, ...values: unknown[]): Promise<Record<string, unknown>[]> {
    return this.ctx.storage.sql.exec(query, ...values).toArray();
  }

  /** Runs the alarm before it is due. */
  async ring(): Promise<void> {
    await this.alarm();
  }
}

/** The class without Cloudflare's base class. */
const Plain = rateLimiterObject(Object);

/** Wraps the class and counts the rows that Cloudflare bills. */
export class Billed extends DurableObject {
  private readonly inner: InstanceType<typeof Plain>;
  private readonly bill = { read: 0, written: 0 };

  constructor(ctx: never, env: never) {
    super(ctx, env);
    const { storage } = ctx as { storage: ConstructorParameters<typeof Plain>[0]["storage"] };
    const { bill } = this;
    const exec = (query: string, ...values: (string | number)[]) => {
      const rows = storage.sql.exec(query, ...values) as unknown as {
        toArray(): Record<string, unknown>[];
        rowsRead: number;
        rowsWritten: number;
      };
      const found = rows.toArray();
      bill.read += rows.rowsRead;
      bill.written += rows.rowsWritten;
      return Object.assign(found, { toArray: () => found });
    };
    const counted = {
      sql: { exec },
      transactionSync: <T>(closure: () => T) => storage.transactionSync(closure),
      getAlarm: () => storage.getAlarm(),
      setAlarm: (time: number) => storage.setAlarm(time),
      deleteAlarm: () => storage.deleteAlarm(),
      deleteAll: () => storage.deleteAll(),
    };
    this.inner = new Plain({ storage: counted, blockConcurrencyWhile: (run) => run() }, env);
  }

  apply(call: never): Promise<unknown> {
    return this.inner.apply(call);
  }

  /** Objects that set an alarm need a handler. */
  override alarm(): Promise<void> {
    return this.inner.alarm();
  }

  /** Returns the rows since the last call. */
  async billed(): Promise<{ read: number; written: number }> {
    const { read, written } = this.bill;
    Object.assign(this.bill, { read: 0, written: 0 });
    return { read, written };
  }
}

/** A mutant that awaits something between read and write. */
export class Racy extends DurableObject {
  async apply({ version, groups }: ApplyCall): Promise<ApplyReply> {
    const decided: WireDecision[][] = [];
    for (const _ of groups) {
      const used = (await this.ctx.storage.get<number>("used")) ?? 0;
      await scheduler.wait(5);
      if (used < 50) await this.ctx.storage.put("used", used + 1);
      decided.push([used < 50 ? [1, 49 - used, 1000, 1000, 0] : [0, 0, 1000, 1000, 1000]]);
    }
    return { version, now: Date.now(), groups: decided };
  }
}

declare const scheduler: { wait(ms: number): Promise<void> };
