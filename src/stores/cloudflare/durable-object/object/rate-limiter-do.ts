/** The class of the Durable Objects that hold buckets. Its methods are all that a caller can reach by RPC. */
import { optionError, SluiceError } from "../../../../core/errors.ts";
import type { DurableObjectStateLike } from "../../platform.ts";
import type { BucketCall, TakeCall, TakeReply, WireInspection } from "../wire/wire.ts";
import { DurableBuckets } from "./durable-buckets.ts";

/** An object that holds buckets. Stores call it; you only export the class and name it in the configuration. */
export interface RateLimiterObject {
  /** Groups of charges, each all or none, in one atomic step. */
  take(call: TakeCall): Promise<TakeReply>;
  /** Forgets a bucket. */
  reset(call: BucketCall): Promise<void>;
  /** Shows what is kept about a bucket. */
  inspect(call: BucketCall): Promise<WireInspection>;
  /** The same three as `POST /take`, `/reset` and `/inspect` with JSON, for set-ups without RPC. */
  fetch(request: Request): Promise<Response>;
  /** Forgets what has expired. */
  alarm(): Promise<void>;
  /** How Cloudflare's types know a class of Durable Objects. It does not exist at run time. */
  readonly __DURABLE_OBJECT_BRAND: never;
}

/** A class of such objects: yours may extend it. */
export type RateLimiterDOClass = new (ctx: DurableObjectStateLike, env: unknown) => RateLimiterObject;

/** The class over the platform's own base, which is what makes its methods reachable by RPC. */
export function rateLimiterObject(Base: new (ctx: never, env: never) => object): RateLimiterDOClass {
  class RateLimiterDO extends Base {
    // A real private field: members that are private by type only could be called by RPC.
    readonly #buckets: DurableBuckets;

    constructor(ctx: DurableObjectStateLike, env: unknown) {
      super(ctx as never, env as never);
      try {
        this.#buckets = new DurableBuckets(ctx.storage);
      } catch (cause) {
        if (!/sqlite/i.test(String(cause))) throw cause;
        const expected =
          'a class with SQLite: "new_sqlite_classes": ["RateLimiterDO"] in a migration of wrangler.jsonc';
        throw Object.assign(optionError("invalid-option", "RateLimiterDO", expected), { cause });
      }
      void ctx.blockConcurrencyWhile(() => this.#buckets.wake());
    }

    take(call: TakeCall): Promise<TakeReply> {
      return this.#buckets.take(call);
    }

    reset(call: BucketCall): Promise<void> {
      return this.#buckets.reset(call);
    }

    inspect(call: BucketCall): Promise<WireInspection> {
      return this.#buckets.inspect(call);
    }

    async fetch(request: Request): Promise<Response> {
      if (request.method !== "POST") return Response.json({ error: "POST alone" }, { status: 405 });
      const action = actions[new URL(request.url).pathname];
      if (!action) return Response.json({ error: "/take, /reset or /inspect" }, { status: 404 });
      // The body is read first: from here on nothing is waited for between reading and writing a bucket.
      const call = await request.json().catch(() => undefined);
      try {
        return Response.json((await action(this.#buckets, call)) ?? null);
      } catch (error) {
        if (!(error instanceof SluiceError)) throw error;
        const { code, option, expected, message } = error;
        return Response.json({ error: { code, option, expected, message } }, { status: 400 });
      }
    }

    alarm(): Promise<void> {
      return this.#buckets.expire();
    }
  }
  return RateLimiterDO as unknown as RateLimiterDOClass;
}

const actions: Readonly<Record<string, (buckets: DurableBuckets, call: unknown) => Promise<unknown>>> = {
  "/take": (buckets, call) => buckets.take(call),
  "/reset": (buckets, call) => buckets.reset(call),
  "/inspect": (buckets, call) => buckets.inspect(call),
};
