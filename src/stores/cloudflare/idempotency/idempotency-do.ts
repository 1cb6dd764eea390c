/** The class of the Durable Objects that hold idempotent responses. Its methods are all that a Worker can call by RPC. */
import { wallClockMs } from "../../../base/clock.ts";
import { SluiceError } from "../../../base/errors.ts";
import { checkDuration } from "../../../idempotency/check-input.ts";
import { begin, complete, read, release, renew } from "../../../idempotency/entry.ts";
import type { DurableObjectStateLike } from "../platform.ts";
import { EntryTable } from "./entry-table.ts";
import {
  type BeginCall,
  type BeginReply,
  type CompleteCall,
  checkBeginCall,
  checkCall,
  checkCompleteCall,
  checkReadCall,
  type EntryCall,
  type HeldReply,
  type ReadCall,
  type ReadReply,
  type RenewCall,
  PROTOCOL_VERSION as version,
} from "./wire.ts";

/** A Durable Object that holds the responses of one scope. `durableObjectIdempotencyStore` calls it; export its class from your Worker. */
export interface IdempotencyObject {
  /** Claims an entry, or reports its state. */
  begin(call: BeginCall): Promise<BeginReply>;
  /** Returns a response. */
  read(call: ReadCall): Promise<ReadReply>;
  /** Extends a lease. */
  renew(call: RenewCall): Promise<HeldReply>;
  /** Stores a response. */
  complete(call: CompleteCall): Promise<HeldReply>;
  /** Undoes a claim. */
  release(call: EntryCall): Promise<HeldReply>;
  /** Deletes expired entries. Cloudflare calls it. */
  alarm(): Promise<void>;
  /** Marks the class as a Durable Object for Cloudflare's types. It does not exist at run time. */
  readonly __DURABLE_OBJECT_BRAND: never;
}

/** The class `IdempotencyDO`, which you can extend. */
export type IdempotencyDOClass = new (ctx: DurableObjectStateLike, env: unknown) => IdempotencyObject;

/** Creates the class on the platform's base class, which makes its methods callable by RPC. */
export function idempotencyObject(Base: new (ctx: never, env: never) => object): IdempotencyDOClass {
  class IdempotencyDO extends Base {
    // A real private field: a member that is private in TypeScript only could be called by RPC.
    readonly #table: EntryTable;

    constructor(ctx: DurableObjectStateLike, env: unknown) {
      super(ctx as never, env as never);
      try {
        this.#table = new EntryTable(ctx.storage);
      } catch (cause) {
        if (!/sqlite/i.test(String(cause))) throw cause;
        throw new SluiceError(
          "invalid-option",
          'IdempotencyDO needs SQLite storage. Add "new_sqlite_classes": ["IdempotencyDO"] to a migration in wrangler.jsonc.',
          { option: "IdempotencyDO", expected: "a class with SQLite storage", cause },
        );
      }
      void ctx.blockConcurrencyWhile(() => this.#table.loadAlarm());
    }

    async begin(call: BeginCall): Promise<BeginReply> {
      checkBeginCall(call);
      const now = wallClockMs();
      return { version, ...(await this.#table.step(call.entry, now, (entry) => begin(entry, call, now))) };
    }

    async read(call: ReadCall): Promise<ReadReply> {
      const { entry: name, fingerprint } = checkReadCall(call);
      const response = await this.#table.step(name, wallClockMs(), (entry) => read(entry, fingerprint));
      return { version, response: response ?? null };
    }

    async renew(call: RenewCall): Promise<HeldReply> {
      const { entry: name, owner, leaseMs } = checkCall(call);
      checkDuration("leaseMs", leaseMs);
      const now = wallClockMs();
      return { version, held: await this.#table.step(name, now, (entry) => renew(entry, owner, leaseMs, now)) };
    }

    async complete(call: CompleteCall): Promise<HeldReply> {
      const { entry: name, owner, response, ttlMs } = checkCompleteCall(call);
      const take = (entry: Parameters<typeof complete<string>>[0]) => complete(entry, owner, response, ttlMs);
      return { version, held: await this.#table.step(name, wallClockMs(), take) };
    }

    async release(call: EntryCall): Promise<HeldReply> {
      const { entry: name, owner } = checkCall(call);
      return { version, held: await this.#table.step(name, wallClockMs(), (entry) => release(entry, owner)) };
    }

    alarm(): Promise<void> {
      return this.#table.deleteExpired(wallClockMs());
    }
  }
  return IdempotencyDO as unknown as IdempotencyDOClass;
}
