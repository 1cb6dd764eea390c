/** The class of the Durable Objects that hold buckets. Its methods are all that a Worker can call by RPC. */
import { SluiceError } from "../../../../base/errors.ts";
import type { DurableObjectStateLike } from "../../platform.ts";
import type { ApplyCall, BucketCall } from "../wire/calls.ts";
import type { ApplyReply, InspectReply } from "../wire/replies.ts";
import { DurableBuckets } from "./durable-buckets.ts";

/** A Durable Object that holds buckets. `durableObjectStore` calls it; export its class from your Worker. */
export interface RateLimiterObject {
  /** Applies groups of charges in one atomic step, each group all or nothing. */
  apply(call: ApplyCall): Promise<ApplyReply>;
  /** Returns the state of a bucket. */
  inspect(call: BucketCall): Promise<InspectReply>;
  /** Deletes expired buckets. Cloudflare calls it. */
  alarm(): Promise<void>;
  /** Marks the class as a Durable Object for Cloudflare's types. It does not exist at run time. */
  readonly __DURABLE_OBJECT_BRAND: never;
}

/** The class `RateLimiterDO`, which you can extend. */
export type RateLimiterDOClass = new (ctx: DurableObjectStateLike, env: unknown) => RateLimiterObject;

/** Creates the class on the platform's base class, which makes its methods callable by RPC. */
export function rateLimiterObject(Base: new (ctx: never, env: never) => object): RateLimiterDOClass {
  class RateLimiterDO extends Base {
    // A real private field: a member that is private in TypeScript only could be called by RPC.
    readonly #buckets: DurableBuckets;

    constructor(ctx: DurableObjectStateLike, env: unknown) {
      super(ctx as never, env as never);
      try {
        this.#buckets = new DurableBuckets(ctx.storage);
      } catch (cause) {
        if (!/sqlite/i.test(String(cause))) throw cause;
        throw new SluiceError(
          "invalid-option",
          'RateLimiterDO needs SQLite storage. Add "new_sqlite_classes": ["RateLimiterDO"] to a migration in wrangler.jsonc.',
          { option: "RateLimiterDO", expected: "a class with SQLite storage", cause },
        );
      }
      void ctx.blockConcurrencyWhile(() => this.#buckets.loadAlarm());
    }

    apply(call: ApplyCall): Promise<ApplyReply> {
      return this.#buckets.apply(call);
    }

    inspect(call: BucketCall): Promise<InspectReply> {
      return this.#buckets.inspect(call);
    }

    alarm(): Promise<void> {
      return this.#buckets.deleteExpired();
    }
  }
  return RateLimiterDO as unknown as RateLimiterDOClass;
}
