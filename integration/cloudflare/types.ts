/** Type tests: Cloudflare's types fit the built package. Checked by tsc, not run. */
import { DurableObject, env, waitUntil } from "cloudflare:workers";
import { fixedWindow, slidingLog, tokenBucket } from "sluice";
import {
  bindingRateLimiter,
  type DurableObjectNamespaceLike,
  durableObjectRateLimiter,
  durableObjectStore,
  hybridRateLimiter,
  type KVNamespaceLike,
  kvRateLimiter,
  kvStore,
  type RateLimitBinding,
  RateLimiterDO,
} from "sluice/cloudflare";
import { rateLimit } from "sluice/fetch";
import { guardDurableObject } from "sluice/ws-durable-object";

/** A derived class with another method. */
export class Counters extends RateLimiterDO {
  async hello(): Promise<string> {
    return "hello";
  }
}

interface Env {
  readonly TYPED: DurableObjectNamespace<RateLimiterDO>;
  readonly OWN: DurableObjectNamespace<Counters>;
  readonly PLAIN: DurableObjectNamespace;
  readonly KV: KVNamespace;
  readonly RL: RateLimit;
}

declare global {
  namespace Cloudflare {
    interface Env {
      readonly GLOBAL: DurableObjectNamespace<RateLimiterDO>;
    }
  }
}

const bucket = tokenBucket("5/s", { burst: 10 });
const log = slidingLog("100/60s");

/** Every binding fits with Cloudflare's type. */
export function limitersOf({ TYPED, OWN, PLAIN, KV, RL }: Env, ctx: ExecutionContext) {
  const objects: DurableObjectNamespaceLike[] = [TYPED, OWN, PLAIN, env.GLOBAL];
  const keys: KVNamespaceLike = KV;
  const binding: RateLimitBinding = RL;
  const first = bindingRateLimiter(RL, fixedWindow("100/60s"), { onStoreError: "open" });
  const exact = durableObjectRateLimiter(TYPED, bucket, { shards: "per-key" });
  return [
    exact,
    durableObjectRateLimiter(OWN, bucket, { shards: 16 }),
    durableObjectRateLimiter(PLAIN, bucket),
    durableObjectStore(env.GLOBAL),
    kvRateLimiter(KV, log),
    kvRateLimiter(KV, log, { waitUntil }),
    kvRateLimiter(KV, log, { waitUntil: (promise) => ctx.waitUntil(promise) }),
    kvStore(KV, { waitUntil }),
    first,
    hybridRateLimiter(first, exact),
    { objects, keys, binding },
  ];
}

/** Stubs have the methods of the class. */
export async function greet({ OWN }: Env): Promise<string> {
  return OWN.getByName("shard:0").hello();
}

/** The platform creates objects with its own state type. */
export const created = (ctx: DurableObjectState, env: Env): RateLimiterDO => new RateLimiterDO(ctx, env);

export default {
  fetch: rateLimit({
    identity: "cloudflare",
    limiter: (_request, { TYPED }: Env) => durableObjectRateLimiter(TYPED, bucket),
  })(async (request: Request, _env: Env, ctx: ExecutionContext) => {
    ctx.waitUntil(Promise.resolve());
    return new Response(String(request.cf?.colo));
  }),
} satisfies ExportedHandler<Env>;

/** Mistakes are type errors. */
export function mistakes({ TYPED, KV, RL }: Env) {
  // @ts-expect-error a KV namespace has no objects
  durableObjectRateLimiter(KV, bucket);
  // @ts-expect-error the binding may be missing
  durableObjectRateLimiter(undefined as DurableObjectNamespace | undefined, bucket);
  // @ts-expect-error an object namespace is not a KV namespace
  kvRateLimiter(TYPED, log);
  // @ts-expect-error a rate limit binding is not a KV namespace
  kvRateLimiter(RL, log);
  // @ts-expect-error a KV namespace is not a rate limit binding
  bindingRateLimiter(KV, fixedWindow("100/60s"));
  // @ts-expect-error unknown option
  durableObjectRateLimiter(TYPED, bucket, { waitUntil });
}

/** A room whose sockets hibernate. */
export class Room extends DurableObject<Env> {
  private readonly guard = guardDurableObject<{ userId: string }, WebSocket>(this.ctx, {
    limits: { limiter: durableObjectRateLimiter(this.env.TYPED, tokenBucket("10/s")) },
    validate: (frame) => typeof frame === "string" || frame.byteLength > 0,
  });

  override fetch(request: Request): Promise<Response> {
    return this.guard.upgrade(request, { data: { userId: "ann" }, tags: ["room"] });
  }

  override webSocketMessage(socket: WebSocket, frame: string | ArrayBuffer): void {
    this.guard.message(socket, frame, (frame, { data }) => {
      socket.send(frame);
      this.guard.connection(socket).data = { userId: data?.userId ?? "ben" };
    });
  }

  override webSocketClose(socket: WebSocket): void {
    this.guard.close(socket);
  }
}
