/** `rateLimit` for Netlify edge functions. */
import type { Context } from "@netlify/edge-functions";
import { internalError } from "../http/rejection.ts";
import { decisionOf } from "./gate/decisions.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch, toResponse } from "./hosts/fetch.ts";
import { openFetchGate } from "./hosts/fetch-gate.ts";

/** The arguments that callbacks of `rateLimit` receive. */
export type NetlifyArgs = readonly [request: Request, context: Context];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type NetlifyRateLimitOptions<F extends string = string> = RateLimitOptions<NetlifyArgs, CustomResponse, F>;

/** An edge function. */
export type NetlifyEdgeFunction = (request: Request, context: Context) => Promise<Response>;

/**
 * Creates an edge function that limits the requests to its paths, and passes the others on:
 * `export default rateLimit({ limiter })`. Memory is not kept between requests there, so use a limiter on a remote store.
 */
export function rateLimit<F extends string = never>(
  options: NetlifyRateLimitOptions<F> & RequiredFacts<F>,
): NetlifyEdgeFunction {
  const gate = openFetchGate<NetlifyArgs>(options as NetlifyRateLimitOptions, {
    request: ([request]) => request,
    // Netlify's own servers connect to edge functions: the address is that of the client.
    peer: ([, context]) => context.ip,
  });
  const { onLimited } = options;
  return async (request, context, ...rest: unknown[]) => {
    if (typeof request?.headers?.get !== "function" || typeof context?.next !== "function") {
      return rejectWrongFramework("netlify", [request, context, ...rest]) as never;
    }
    return enterOnFetch(gate, [request, context], request, {
      next: () => context.next(),
      fail(error) {
        gate.requestFailed(error);
        return toResponse(internalError(request.headers.get("accept") ?? undefined));
      },
      onLimited,
    });
  };
}

/**
 * Returns the decision of the last `rateLimit` that the request passed; `undefined` if none has counted it. In shadow
 * mode the decision may be a denied one.
 */
export function getRateLimit(request: Request): RequestDecision | undefined {
  return decisionOf(request);
}
