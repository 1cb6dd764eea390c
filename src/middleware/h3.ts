/** `rateLimit` for h3 2, and with it for Nitro 3. */
import { type H3Config, type H3Event, type Middleware, toResponse as toH3Response } from "h3";
import { decisionOf } from "./gate/decisions.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch } from "./hosts/fetch.ts";
import { openFetchGate } from "./hosts/fetch-gate.ts";
import { isPeerless } from "./hosts/fetch-request.ts";

/** The arguments that callbacks of `rateLimit` receive. */
export type H3Args = readonly [event: H3Event];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type H3RateLimitOptions<F extends string = string> = RateLimitOptions<H3Args, CustomResponse, F>;

/** Creates a middleware that limits the requests to everything after it: `app.use(rateLimit({ policy: "100/m" }))`. */
export function rateLimit<F extends string = never>(options: H3RateLimitOptions<F> & RequiredFacts<F>): Middleware {
  const peerless = isPeerless();
  const gate = openFetchGate<H3Args>(options as H3RateLimitOptions, {
    request: ([{ req }]) => req,
    peer: ([{ req }]) => (peerless ? undefined : req.ip),
    peerless,
  });
  const { onLimited } = options;
  return (event, next, ...rest: unknown[]) => {
    if (typeof next !== "function" || typeof event?.req?.headers?.get !== "function") {
      return rejectWrongFramework("h3", [event, next, ...rest]);
    }
    return enterOnFetch(gate, [event], event.req, {
      // A handler may return any value. As a response, its status and headers decide which fields are added.
      next: async () => toH3Response(await next(), event, configOf(event)),
      fail(error) {
        throw error;
      },
      respond: (body, status) => new Response(body, { status, headers: takeHeaders(event) }),
      onLimited,
    });
  };
}

/** How the app responds to errors and paths that are not found. It calls `onResponse` itself, when this has returned. */
function configOf({ app }: H3Event): H3Config {
  const { onResponse: _, ...config } = app?.config ?? {};
  return config;
}

/** The headers that earlier middleware has set. h3 adds them to successful responses, and would add them twice. */
function takeHeaders({ res }: H3Event): Headers {
  const taken = new Headers(res.headers);
  for (const name of [...taken.keys()]) res.headers.delete(name);
  return taken;
}

/**
 * Returns the decision of the last `rateLimit` middleware that the request passed; `undefined` if none has counted it. In
 * shadow mode the decision may be a denied one.
 */
export function getRateLimit(event: H3Event): RequestDecision | undefined {
  return decisionOf(event);
}
