/** `rateLimit` for whatever turns a `Request` into a `Response`: Workers, Bun, Deno, route handlers. */
import { internalError } from "../http/too-many-requests.ts";
import { enterOnFetch, isPeerless, type OwnAnswer, peerOf, responseOf } from "./fetch-server.ts";
import { openGate } from "./gate.ts";
import type { RateLimitOptions } from "./options.ts";

/** What a handler is called with: the request, and what else its runtime hands over, such as `env` in a Worker. */
export type FetchCall = readonly [
  request: Request,
  // biome-ignore lint/suspicious/noExplicitAny: every runtime has other arguments
  ...rest: any[],
];

/** The options of `rateLimit`. `onLimited` gives the body: its status and RateLimit headers are set afterwards. */
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
    peerless,
  });
  const { onLimited } = options;
  return (handler) =>
    async (request, ...rest) =>
      enterOnFetch(gate, [request, ...rest], request, {
        go: () => handler(request, ...rest),
        fail: () => responseOf(internalError(request.headers.get("accept") ?? undefined)),
        onLimited,
      });
}
