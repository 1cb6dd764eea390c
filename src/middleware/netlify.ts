/** `rateLimit` and `idempotent` for Netlify edge functions. */
import type { Context } from "@netlify/edge-functions";
import { internalError } from "../http/rejection.ts";
import { decisionOf } from "./gate/decisions.ts";
import type { Gate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch, type FetchResponder, toResponse } from "./hosts/fetch.ts";
import { type FetchArgsReader, openFetchGate } from "./hosts/fetch-gate.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import { openFetchIdempotency } from "./idempotency/fetch-idempotency.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";

/** The arguments that callbacks receive. */
export type NetlifyArgs = readonly [request: Request, context: Context];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type NetlifyRateLimitOptions<F extends string = string> = RateLimitOptions<NetlifyArgs, CustomResponse, F>;

/** An edge function. */
export type NetlifyEdgeFunction = (request: Request, context: Context) => Promise<Response>;

/** The options of `idempotent`. */
export type NetlifyIdempotencyOptions = IdempotencyOptions<NetlifyArgs>;

const reader: FetchArgsReader<NetlifyArgs> = {
  request: ([request]) => request,
  // Netlify's own servers connect to edge functions: the address is that of the client.
  peer: ([, context]) => context.ip,
};

/**
 * Creates an edge function that limits the requests to its paths, and passes the others on:
 * `export default rateLimit({ limiter })`. Memory is not kept between requests there, so use a limiter on a remote store.
 */
export function rateLimit<F extends string = never>(
  options: NetlifyRateLimitOptions<F> & RequiredFacts<F>,
): NetlifyEdgeFunction {
  return edgeFunctionFor(openFetchGate<NetlifyArgs>(options as NetlifyRateLimitOptions, reader), options.onLimited);
}

/**
 * Creates an edge function that runs requests with an `Idempotency-Key` once, and replays their responses to retries:
 * `export default idempotent({ store, scope })`. Memory is not kept between requests there, so use a remote store.
 */
export function idempotent(options: NetlifyIdempotencyOptions): NetlifyEdgeFunction {
  return edgeFunctionFor(openFetchIdempotency<NetlifyArgs>(options, reader), undefined, "idempotent");
}

function edgeFunctionFor(
  gate: Gate<NetlifyArgs>,
  onLimited: FetchResponder<NetlifyArgs>["onLimited"],
  name?: MiddlewareName,
): NetlifyEdgeFunction {
  return async (request, context, ...rest: unknown[]) => {
    if (typeof request?.headers?.get !== "function" || typeof context?.next !== "function") {
      return rejectWrongFramework("netlify", [request, context, ...rest], name) as never;
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

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(request: Request): RequestIdempotency | undefined {
  return idempotencyOf(request);
}
