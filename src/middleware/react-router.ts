/** `rateLimit` for React Router 7 and 8 in framework mode: a middleware of routes. */
import type { MiddlewareFunction } from "react-router";
import { decisionOf, recordDecision } from "./gate/decisions.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch } from "./hosts/fetch.ts";
import { openFetchGate } from "./hosts/fetch-gate.ts";

/** What React Router passes to a middleware, and to loaders and actions after it. */
type RouteArgs = Parameters<MiddlewareFunction<Response>>[0];

/** The arguments that callbacks of `rateLimit` receive. */
export type ReactRouterArgs = readonly [args: RouteArgs];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type ReactRouterRateLimitOptions<F extends string = string> = RateLimitOptions<
  ReactRouterArgs,
  CustomResponse,
  F
>;

/**
 * Creates a middleware that limits a route and its children: `export const middleware = [rateLimit(options)]`. React
 * Router passes no socket address, so `identity` or `key` is required.
 */
export function rateLimit<F extends string = never>(
  options: ReactRouterRateLimitOptions<F> & RequiredFacts<F>,
): MiddlewareFunction<Response> {
  const gate = openFetchGate<ReactRouterArgs>(options as ReactRouterRateLimitOptions, {
    request: ([{ request }]) => request,
    path: ([args]) => routedPath(args),
    peer: () => undefined,
    peerless: true,
  });
  const { onLimited } = options;
  return (args, next, ...rest: unknown[]) => {
    if (typeof next !== "function" || typeof args?.request?.headers?.get !== "function") {
      return rejectWrongFramework("react-router", [args, next, ...rest]) as never;
    }
    return enterOnFetch(gate, [args], args.request, {
      next() {
        const decision = decisionOf(args);
        // Loaders and actions get other arguments with the same context.
        if (decision && typeof args.context === "object") recordDecision(args.context, decision);
        return next();
      },
      fail(error) {
        throw error;
      },
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
