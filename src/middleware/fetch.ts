/** `rateLimit` and `idempotent` for handlers from `Request` to `Response`: Workers, Bun, Deno, route handlers. */
import { internalError } from "../http/rejection.ts";
import { decisionOf } from "./gate/decisions.ts";
import { type Gate, openGate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import type { RequestReader } from "./gate/request-reader.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch, type FetchResponder, toResponse } from "./hosts/fetch.ts";
import { hasBody, hostOf, isPeerless, peerOf, targetOf } from "./hosts/fetch-request.ts";
import { readBody } from "./hosts/request-body.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import { openIdempotency } from "./idempotency/gate.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";
import { clonedPayload } from "./idempotency/payload.ts";

/** The arguments of a handler: the request, and whatever else its runtime passes, such as `env` in a Worker. */
export type FetchArgs = readonly [
  request: Request,
  // biome-ignore lint/suspicious/noExplicitAny: every runtime passes other arguments
  ...rest: any[],
];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type FetchRateLimitOptions<F extends string = string> = RateLimitOptions<FetchArgs, CustomResponse, F>;

/** The options of `idempotent`. */
export type FetchIdempotencyOptions = IdempotencyOptions<FetchArgs>;

/** Wraps a handler. */
type WrapHandler = <R extends Request, Rest extends unknown[]>(
  handler: (request: R, ...rest: Rest) => Response | Promise<Response>,
) => (request: R, ...rest: Rest) => Promise<Response>;

function readerOf(peerless: boolean): RequestReader<FetchArgs> {
  return {
    method: (args) => args[0].method,
    header: (args, name) => args[0].headers.get(name) ?? undefined,
    peer: (args) => (peerless ? undefined : peerOf(args[0], args[1])),
    hasBody: (args) => hasBody(args[0], args[1]),
    path: (args) => targetOf(args[0]),
    host: (args) => hostOf(args[0]),
    extra: (args) => (args[0] as { cf?: unknown }).cf,
    body: (args, maxBytes) => readBody(args[0], maxBytes),
    peerless,
    repeatable: true,
  };
}

/** Creates a function that wraps a handler and limits its requests: `export default { fetch: rateLimit(options)(handler) }`. */
export function rateLimit<F extends string = never>(options: FetchRateLimitOptions<F> & RequiredFacts<F>): WrapHandler {
  const gate = openGate<FetchArgs, CustomResponse>(options as FetchRateLimitOptions, readerOf(isPeerless()));
  return wrapperFor(gate, options.onLimited);
}

/**
 * Creates a function that wraps a handler, runs requests with an `Idempotency-Key` once, and replays their responses to
 * retries: `idempotent({ store, scope })(rateLimit(options)(handler))`.
 */
export function idempotent(options: FetchIdempotencyOptions): WrapHandler {
  const gate = openIdempotency<FetchArgs>(options, {
    ...readerOf(isPeerless()),
    payload: (args, maxBytes) => clonedPayload(args[0], maxBytes),
    signal: (args) => args[0].signal,
  });
  return wrapperFor(gate, undefined, "idempotent");
}

function wrapperFor(
  gate: Gate<FetchArgs>,
  onLimited: FetchResponder<FetchArgs>["onLimited"],
  name?: MiddlewareName,
): WrapHandler {
  const wrappedHandlers = new WeakSet<object>();
  return (handler, ...others: unknown[]) => {
    // Called as a handler itself, by a server or by another framework.
    if (typeof handler !== "function") rejectWrongFramework("fetch", [handler, ...others], name);
    // Wrapped twice by one middleware, a request would be charged twice.
    if (wrappedHandlers.has(handler)) return handler as never;
    const wrapped: typeof handler = async (request, ...rest) => {
      if (typeof request?.headers?.get !== "function") {
        return rejectWrongFramework("fetch", [request, ...rest], name) as never;
      }
      return enterOnFetch(gate, [request, ...rest], request, {
        next: () => handler(request, ...rest),
        fail(error) {
          gate.requestFailed(error);
          return toResponse(internalError(request.headers.get("accept") ?? undefined));
        },
        onLimited,
      });
    };
    wrappedHandlers.add(wrapped);
    return wrapped as never;
  };
}

/**
 * Returns the decision of the last `rateLimit` wrapper that the request passed; `undefined` if none has counted it. Pass
 * the same object that the handler received: a copy or clone has no decision. In shadow mode it may be a denied one.
 */
export function getRateLimit(request: Request): RequestDecision | undefined {
  return decisionOf(request);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(request: Request): RequestIdempotency | undefined {
  return idempotencyOf(request);
}
