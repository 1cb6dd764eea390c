/** `rateLimit` for whatever turns a `Request` into a `Response`: Workers, Bun, Deno, route handlers. */
import { internalError } from "../http/rejection.ts";
import { refuseForeignCall } from "./gate/foreign-call.ts";
import { openGate } from "./gate/gate.ts";
import type { RateLimitOptions } from "./gate/options.ts";
import { enterOnFetch, hasBody, isPeerless, type OwnAnswer, peerOf, responseOf } from "./hosts/fetch.ts";

/** What a handler is called with: the request, and what else its runtime hands over, such as `env` in a Worker. */
export type FetchCall = readonly [
  request: Request,
  // biome-ignore lint/suspicious/noExplicitAny: every runtime has other arguments
  ...rest: any[],
];

/** The options of `rateLimit`. `onLimited` returns a response: RateLimit headers are added, its status is kept from 400. */
export type FetchRateLimitOptions = RateLimitOptions<FetchCall, OwnAnswer>;

/** Limits the requests that reach a handler: `export default { fetch: rateLimit(options)(handler) }`. */
export function rateLimit(
  options: FetchRateLimitOptions,
): <R extends Request, Rest extends unknown[]>(
  handler: (request: R, ...rest: Rest) => Response | Promise<Response>,
) => (request: R, ...rest: Rest) => Promise<Response> {
  const peerless = isPeerless();
  const gate = openGate<FetchCall, OwnAnswer>(options, {
    method: (call) => call[0].method,
    header: (call, name) => call[0].headers.get(name) ?? undefined,
    peer: (call) => (peerless ? undefined : peerOf(call[0], call[1])),
    hasBody: (call) => hasBody(call[0], call[1]),
    peerless,
    repeatable: true,
  });
  const { onLimited } = options;
  const limited = new WeakSet<object>();
  return (handler, ...others: unknown[]) => {
    // Called as a handler itself, by a server or by another framework.
    if (typeof handler !== "function") refuseForeignCall("fetch", [handler, ...others]);
    // Wrapped twice by one middleware, a request would be charged twice.
    if (limited.has(handler)) return handler as never;
    const wrapped: typeof handler = async (request, ...rest) => {
      if (typeof request?.headers?.get !== "function") return refuseForeignCall("fetch", [request, ...rest]) as never;
      return enterOnFetch(gate, [request, ...rest], request, {
        go: () => handler(request, ...rest),
        fail(error) {
          gate.requestFailed(error);
          return responseOf(internalError(request.headers.get("accept") ?? undefined));
        },
        onLimited,
      });
    };
    limited.add(wrapped);
    return wrapped as never;
  };
}
