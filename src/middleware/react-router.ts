/** `rateLimit` and `idempotent` for React Router 7 and 8 in framework mode: middleware of routes. */
import type { MiddlewareFunction } from "react-router";
import { decisionOf, shareDecision } from "./gate/decisions.ts";
import type { Gate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch, type FetchResponder } from "./hosts/fetch.ts";
import { type FetchArgsReader, openFetchGate } from "./hosts/fetch-gate.ts";
import { idempotencyOf, type RequestIdempotency, recordIdempotency } from "./idempotency/current.ts";
import { openFetchIdempotency } from "./idempotency/fetch-idempotency.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";

/** What React Router passes to a middleware, and to loaders and actions after it. */
type RouteArgs = Parameters<MiddlewareFunction<Response>>[0];

/** The arguments that callbacks receive. */
export type ReactRouterArgs = readonly [args: RouteArgs];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type ReactRouterRateLimitOptions<F extends string = string> = RateLimitOptions<
  ReactRouterArgs,
  CustomResponse,
  F
>;

/** The options of `idempotent`. */
export type ReactRouterIdempotencyOptions = IdempotencyOptions<ReactRouterArgs>;

const reader: FetchArgsReader<ReactRouterArgs> = {
  request: ([{ request }]) => request,
  path: ([args]) => routedPath(args),
  peer: () => undefined,
  peerless: true,
};

/**
 * Creates a middleware that limits a route and its children: `export const middleware = [rateLimit(options)]`. React
 * Router passes no socket address, so `identity` or `key` is required.
 */
export function rateLimit<F extends string = never>(
  options: ReactRouterRateLimitOptions<F> & RequiredFacts<F>,
): MiddlewareFunction<Response> {
  const gate = openFetchGate<ReactRouterArgs>(options as ReactRouterRateLimitOptions, reader);
  return middlewareFor(gate, options.onLimited);
}

/**
 * Creates a middleware that runs requests with an `Idempotency-Key` once, and replays their responses to retries:
 * `export const middleware = [authenticate, idempotent({ store, scope }), rateLimit(options)]`.
 */
export function idempotent(options: ReactRouterIdempotencyOptions): MiddlewareFunction<Response> {
  return middlewareFor(openFetchIdempotency<ReactRouterArgs>(options, reader), undefined, "idempotent");
}

function middlewareFor(
  gate: Gate<ReactRouterArgs>,
  onLimited: FetchResponder<ReactRouterArgs>["onLimited"],
  name?: MiddlewareName,
): MiddlewareFunction<Response> {
  return (args, next, ...rest: unknown[]) => {
    if (typeof next !== "function" || typeof args?.request?.headers?.get !== "function") {
      return rejectWrongFramework("react-router", [args, next, ...rest], name) as never;
    }
    return enterOnFetch(gate, [args], args.request, {
      next() {
        // Loaders and actions get other arguments with the same context.
        if (typeof args.context === "object") shareDecision(args, args.context);
        const state = idempotencyOf(args);
        if (state && typeof args.context === "object") recordIdempotency(args.context, state);
        return next();
      },
      fail(error) {
        throw error;
      },
      endsOnAbort: true,
      onLimited,
    });
  };
}

/** The path without the `.data` that requests of the client end with, which React Router passes beside the request. */
function routedPath({ request, url }: RouteArgs & { readonly url?: URL }): string | undefined {
  const query = request.url.indexOf("?");
  return url && url.pathname + (query === -1 ? "" : request.url.slice(query));
}

/**
 * Returns the decision of the last `rateLimit` middleware that the request passed; `undefined` if none has counted it.
 * Pass the arguments of a loader, an action or a middleware. In shadow mode the decision may be a denied one.
 */
export function getRateLimit({ context }: { readonly context: object }): RequestDecision | undefined {
  return decisionOf(context);
}

/**
 * Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without
 * one. Pass the arguments of a loader, an action or a middleware.
 */
export function getIdempotency({ context }: { readonly context: object }): RequestIdempotency | undefined {
  return idempotencyOf(context);
}
