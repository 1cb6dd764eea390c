/** `rateLimit` for Hono 4, on every runtime that Hono runs on. */
import type { Context, MiddlewareHandler } from "hono";
import { enterOnFetch, isPeerless, type OwnAnswer, peerOf } from "./fetch-server.ts";
import { openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";

/** What a middleware of Hono is called with. */
export type HonoCall = readonly [context: Context];

/** The options of `rateLimit`. `onLimited` gives the body: its status and RateLimit headers are set afterwards. */
export type HonoRateLimitOptions = RateLimitOptions<HonoCall, OwnAnswer>;

/** Limits what comes after it: `app.use(rateLimit({ policy: "100/m" }))`. */
export function rateLimit(options: HonoRateLimitOptions): MiddlewareHandler {
  const gate = openGate<HonoCall, OwnAnswer>(options, {
    method: ([context]) => context.req.method,
    header: ([context], name) => context.req.header(name),
    peer: ([context]) => peerOf(context.req.raw, context.env),
    peerless: isPeerless(),
  });
  return async (context, next) => {
    const response = await enterOnFetch(gate, [context], context.req.raw, {
      async go() {
        await next();
        return context.res;
      },
      fail(error) {
        throw error;
      },
      adopt(response) {
        context.res = response;
        return context.res;
      },
      thrown: () => context.error,
      onLimited: options.onLimited,
    });
    if (response === context.res) return;
    // Set alone, it would be given the headers of the one before.
    context.res = undefined;
    context.res = response;
  };
}
