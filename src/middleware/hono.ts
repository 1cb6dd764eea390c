/** `rateLimit` for Hono 4, on every runtime that Hono runs on. */
import type { Context, MiddlewareHandler } from "hono";
import type { StatusCode } from "hono/utils/http-status";
import { refuseForeignCall } from "./gate/foreign-call.ts";
import { openGate } from "./gate/gate.ts";
import type { RateLimitOptions } from "./gate/options.ts";
import { enterOnFetch, hasBody, isPeerless, type OwnAnswer, peerOf } from "./hosts/fetch.ts";
import { beforeHead } from "./hosts/node-head.ts";

/** What a middleware of Hono is called with. */
export type HonoCall = readonly [context: Context];

/** The options of `rateLimit`. `onLimited` returns a response: RateLimit headers are added, its status is kept from 400. */
export type HonoRateLimitOptions = RateLimitOptions<HonoCall, OwnAnswer>;

/** What @hono/node-server hands on. */
interface HttpBindings {
  readonly outgoing: Parameters<typeof beforeHead>[0];
}

/** Limits what comes after it: `app.use(rateLimit({ policy: "100/m" }))`. */
export function rateLimit(options: HonoRateLimitOptions): MiddlewareHandler {
  const peerless = isPeerless();
  const gate = openGate<HonoCall, OwnAnswer>(options, {
    method: (call) => call[0].req.method,
    header: (call, name) => call[0].req.header(name),
    peer: (call) => (peerless ? undefined : peerOf(call[0].req.raw, call[0].env)),
    hasBody: (call) => hasBody(call[0].req.raw, call[0].env),
    peerless,
  });
  const { onLimited } = options;
  const enter: MiddlewareHandler = async (context, next) => {
    let handled: Response | undefined;
    const response = await enterOnFetch(gate, [context], context.req.raw, {
      async go() {
        await next();
        return (handled = context.res);
      },
      fail(error) {
        throw error;
      },
      tell(pendingHeaders) {
        // On Node the headers of a response are made from scratch once they are touched.
        const { outgoing } = (context.env ?? {}) as Partial<HttpBindings>;
        if (typeof outgoing?.writeHead !== "function") return false;
        beforeHead(outgoing, pendingHeaders);
        return true;
      },
      respond: (body, status) => context.newResponse(body as string, status as StatusCode),
      thrown: () => context.error,
      onLimited,
    });
    if (response === handled) return;
    // Set alone, it would be given the headers of the one before.
    context.res = undefined;
    context.res = response;
  };
  return (context, next, ...rest: unknown[]) => {
    if (typeof next === "function" && context?.req?.raw !== undefined) return enter(context, next);
    return refuseForeignCall("hono", [context, next, ...rest]) as never;
  };
}
