/** The routes of the suite for a script at the edge, which creates them itself. */
import { Redis } from "@upstash/redis/cloudflare";
import { createLimiter } from "sluice";
import { type GuardedRoute, guardedRoutes, type RouteKit } from "sluice/testing";
import { upstashIdempotencyStore, upstashStore } from "sluice/upstash";

/** The URL and token of Redis over REST. Without them, limiters are in memory. */
export interface Env {
  readonly url?: string;
  readonly token?: string;
}

type Handler = (request: Request, env: Env) => Response | Promise<Response>;

/** Serves routes that are created with the first request, because a Worker gets its `env` with requests only. */
export function routesAtEdge(kit: RouteKit, serve: (routes: readonly GuardedRoute[]) => Handler): { fetch: Handler } {
  let handler: Handler | undefined;
  return {
    fetch(request, env) {
      handler ??= serve(guardedRoutes({ ...kit, identity: identity(), ...onUpstash(env) }));
      return handler(request, env);
    },
  };
}

/** The platform of this runtime. */
function identity(): "vercel" | "cloudflare" {
  return "EdgeRuntime" in globalThis ? "vercel" : "cloudflare";
}

function onUpstash({ url, token }: Env): Pick<RouteKit, "limiter" | "idempotencyStore"> {
  if (!url || !token) return {};
  const redis = new Redis({ url, token, retry: { retries: 0 } });
  const store = upstashStore(redis);
  let routes = 0;
  return {
    limiter: (policy) => createLimiter({ policy, store, onStoreError: "throw", deadlineMs: "20s" }),
    // With a secret of its own: the routes of the suite use the same users and keys.
    idempotencyStore: () => upstashIdempotencyStore(redis, { hmacSecret: `route ${routes++}` }),
  };
}
