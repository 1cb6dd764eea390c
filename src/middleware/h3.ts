/** `rateLimit` and `idempotent` for h3 2, and with it for Nitro 3. */
import { type H3Config, type H3Event, type Middleware, toResponse as toH3Response } from "h3";
import { decisionOf } from "./gate/decisions.ts";
import type { Gate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch, type FetchResponder } from "./hosts/fetch.ts";
import { connectionOf } from "./hosts/fetch-connection.ts";
import { type FetchArgsReader, openFetchGate } from "./hosts/fetch-gate.ts";
import { isPeerless } from "./hosts/fetch-request.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import { openFetchIdempotency } from "./idempotency/fetch-idempotency.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";

/** The arguments that callbacks receive. */
export type H3Args = readonly [event: H3Event];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type H3RateLimitOptions<F extends string = string> = RateLimitOptions<H3Args, CustomResponse, F>;

/** The options of `idempotent`. */
export type H3IdempotencyOptions = IdempotencyOptions<H3Args>;

function readerOf(peerless: boolean): FetchArgsReader<H3Args> {
  return { request: ([{ req }]) => req, peer: ([{ req }]) => (peerless ? undefined : req.ip), peerless };
}

/** Creates a middleware that limits the requests to everything after it: `app.use(rateLimit({ policy: "100/m" }))`. */
export function rateLimit<F extends string = never>(options: H3RateLimitOptions<F> & RequiredFacts<F>): Middleware {
  return middlewareFor(openFetchGate<H3Args>(options as H3RateLimitOptions, readerOf(isPeerless())), options.onLimited);
}

/**
 * Creates a middleware that runs requests with an `Idempotency-Key` once, and replays their responses to retries:
 * `app.use(idempotent({ store, scope }))`. Mount it after authentication and before `rateLimit`.
 */
export function idempotent(options: H3IdempotencyOptions): Middleware {
  return middlewareFor(openFetchIdempotency<H3Args>(options, readerOf(isPeerless())), undefined, "idempotent");
}

function middlewareFor(
  gate: Gate<H3Args>,
  onLimited: FetchResponder<H3Args>["onLimited"],
  name?: MiddlewareName,
): Middleware {
  return (event, next, ...rest: unknown[]) => {
    if (typeof next !== "function" || typeof event?.req?.headers?.get !== "function") {
      return rejectWrongFramework("h3", [event, next, ...rest], name);
    }
    return enterOnFetch(gate, [event], event.req, {
      // A handler may return any value. As a response, its status and headers decide which fields are added.
      next: async () => toH3Response(await next(), event, configOf(event)),
      fail(error) {
        throw error;
      },
      connection: () => connectionOf(event.runtime?.node?.res as Parameters<typeof connectionOf>[0]),
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

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(event: H3Event): RequestIdempotency | undefined {
  return idempotencyOf(event);
}
