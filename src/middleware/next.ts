/** `rateLimit` for `proxy.ts`, route handlers and Server Actions of Next.js, and `idempotent` for route handlers. Uses no Node API. */
import { optionError, SluiceError } from "../base/errors.ts";
import { internalError } from "../http/rejection.ts";
import { decisionOf } from "./gate/decisions.ts";
import { type Gate, openGate } from "./gate/gate.ts";
import type { LimitedRequest, RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { enterCall } from "./hosts/call.ts";
import { type CustomResponse, enterOnFetch, type FetchResponder, toResponse } from "./hosts/fetch.ts";
import { type FetchArgsReader, openFetchGate } from "./hosts/fetch-gate.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import { openFetchIdempotency } from "./idempotency/fetch-idempotency.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";

/** A request of Next.js, with the members that are used. `NextRequest` is one. */
type NextRequestLike = Request;

/** The arguments that callbacks receive. */
export type NextArgs = readonly [
  request: NextRequestLike,
  // biome-ignore lint/suspicious/noExplicitAny: the event of a proxy, or the context of a route handler
  ...rest: any[],
];

/** The options of `rateLimit` and `limitRoute`. `onLimited` returns a response; its status is kept from 400. */
export type NextRateLimitOptions<F extends string = string> = RateLimitOptions<NextArgs, CustomResponse, F>;

/** The options of `idempotent`. */
export type NextIdempotencyOptions = IdempotencyOptions<NextArgs>;

const reader: FetchArgsReader<NextArgs> = { request: ([request]) => request, peer: () => undefined, peerless: true };

/** What the function of a proxy returns. A request without a response continues. */
// biome-ignore lint/suspicious/noConfusingVoidType: a function without a return statement returns nothing
type ProxyResult = Response | undefined | null | void;

/** A function of `proxy.ts` or `middleware.ts`. */
export type NextProxy = (request: Request, ...rest: unknown[]) => Promise<Response>;

/**
 * Creates the function of `proxy.ts` or `middleware.ts`: `export const proxy = rateLimit(options)`. `handler` responds to
 * requests that are allowed, such as `() => NextResponse.next()`. Default: they continue. Next.js passes no socket
 * address, so `identity` or `key` is required. A proxy ends before the response, so it can't refund or hold anything.
 */
export function rateLimit<F extends string = never>(
  options: NextRateLimitOptions<F> & RequiredFacts<F>,
  handler: (request: never, ...rest: never[]) => ProxyResult | Promise<ProxyResult> = () => {},
): NextProxy {
  const wrapped = wrapper(
    options as NextRateLimitOptions,
    true,
  )(
    async (request: Request, ...rest: unknown[]) =>
      (await handler(request as never, ...(rest as never[]))) ?? continued(),
  );
  return (request, ...rest) => wrapped(request, ...rest);
}

/** Creates a function that wraps a route handler: `export const POST = limitRoute(options)(handler)`. */
export function limitRoute<F extends string = never>(options: NextRateLimitOptions<F> & RequiredFacts<F>): WrapRoute {
  return wrapper(options as NextRateLimitOptions, false);
}

/**
 * Creates a function that wraps a route handler, runs requests with an `Idempotency-Key` once, and replays their responses
 * to retries: `export const POST = idempotent({ store, scope })(limitRoute(options)(handler))`.
 */
export function idempotent(options: NextIdempotencyOptions): WrapRoute {
  return wrapperFor(openFetchIdempotency<NextArgs>(options, reader), undefined, "idempotent");
}

/** Wraps a route handler. */
type WrapRoute = <R extends Request, Rest extends unknown[]>(
  handler: (request: R, ...rest: Rest) => Response | Promise<Response>,
) => (request: R, ...rest: Rest) => Promise<Response>;

function wrapper(options: NextRateLimitOptions, endsEarly: boolean): WrapRoute {
  return wrapperFor(
    openFetchGate<NextArgs>(options, { ...reader, endsEarly }),
    options.onLimited,
    endsEarly ? "rateLimit" : "limitRoute",
  );
}

function wrapperFor(
  gate: Gate<NextArgs>,
  onLimited: FetchResponder<NextArgs>["onLimited"],
  name?: MiddlewareName,
): WrapRoute {
  return (handler, ...others: unknown[]) => {
    if (typeof handler !== "function") rejectWrongFramework("next", [handler, ...others], name);
    return async (request, ...rest) => {
      if (typeof request?.headers?.get !== "function") {
        return rejectWrongFramework("next", [request, ...rest], name) as never;
      }
      return enterOnFetch(gate, [request, ...rest], request, {
        next:
          name === "idempotent" ? () => responseOf(() => handler(request, ...rest)) : () => handler(request, ...rest),
        fail(error) {
          gate.requestFailed(error);
          return toResponse(internalError(request.headers.get("accept") ?? undefined));
        },
        statusOf: statusOfThrown,
        onLimited,
      });
    };
  };
}

/** The status of what `redirect`, `notFound` and others throw. Next.js turns it into a response by its `digest`. */
function statusOfThrown(error: unknown): number | undefined {
  const { digest } = (error ?? {}) as { digest?: unknown };
  const [, status] = /^(?:NEXT_REDIRECT;.*|NEXT_HTTP_ERROR_FALLBACK);(\d{3});?$/s.exec(String(digest)) ?? [];
  return status === undefined ? undefined : Number(status);
}

/** The response that Next.js makes of what `redirect`, `notFound` and others throw, so that it is stored. */
async function responseOf(handler: () => Response | Promise<Response>): Promise<Response> {
  try {
    return await handler();
  } catch (error) {
    const status = statusOfThrown(error);
    if (status === undefined) throw error;
    const [, location] = /^NEXT_REDIRECT;[^;]*;(.*);\d{3};?$/s.exec((error as { digest: string }).digest) ?? [];
    return new Response(null, { status, headers: location === undefined ? {} : { Location: location } });
  }
}

/** The response with which a proxy continues a request, as `NextResponse.next()` returns it. */
function continued(): Response {
  return new Response(null, { headers: { "x-middleware-next": "1" } });
}

/** The arguments that callbacks of `limitAction` receive: the request headers, and those of the action. */
export type ActionArgs = readonly [headers: Headers, ...args: unknown[]];

/** The options of `limitAction`. */
export interface ActionOptions<Result, F extends string = string>
  extends Omit<RateLimitOptions<ActionArgs, unknown, F>, "headers" | "preflight" | "onLimited"> {
  /** Returns the headers of the request: `headers` of `next/headers`. */
  headers: () => Pick<Headers, "get"> | Promise<Pick<Headers, "get">>;
  /** Returns the result of an action that is limited, such as `{ error: "Try again later." }`. */
  onLimited: (limited: LimitedRequest<ActionArgs>) => Result | Promise<Result>;
  /** The path that rules match, such as `/actions/send`. Default: `/`. */
  path?: string;
}

/**
 * Limits a Server Action: `export const send = limitAction({ policy: "5/m", headers, identity, onLimited }, action)`.
 * A limited one resolves with the result of `onLimited`: Next.js hides the message of an error that an action throws.
 */
export function limitAction<Args extends unknown[], Result, F extends string = never>(
  { headers, path = "/", onLimited, ...options }: ActionOptions<Result, F>,
  action: (...args: Args) => Promise<Result> | Result,
): (...args: Args) => Promise<Result> {
  const gate = openGate<ActionArgs, unknown>(options as RateLimitOptions<ActionArgs, unknown>, {
    method: () => "POST",
    header: ([headers], name) => headers.get(name) ?? undefined,
    peer: () => undefined,
    hasBody: () => true,
    path: () => path,
    body: async () => undefined,
    peerless: true,
    isCall: true,
  });
  for (const [option, given] of Object.entries({ headers, onLimited })) {
    if (typeof given !== "function") throw optionError("invalid-option", option, "a function", given);
  }
  return async (...args) => {
    const given = (await headers()) as Headers;
    return enterCall<ActionArgs, Result>(gate, [given, ...args], {
      next: () => action(...args),
      statusOf: statusOfThrown,
      reject({ status }, limited) {
        if (limited) return onLimited(limited);
        if (status < 429) {
          const message = `abuse rejected the action with status ${status}. Check lists in proxy.ts, where there is a response.`;
          throw new SluiceError("unsupported", message, { option: "abuse", received: status });
        }
        const message = "The action could not be checked, and onError rejected it.";
        throw new SluiceError("store-unavailable", message, { option: "limitAction" });
      },
    });
  };
}

/**
 * Returns the decision of the last `rateLimit` or `limitRoute` that the request passed; `undefined` if none has counted
 * it. Pass the same object that the handler received. A proxy and a route handler get different ones.
 */
export function getRateLimit(request: Request): RequestDecision | undefined {
  return decisionOf(request);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(request: Request): RequestIdempotency | undefined {
  return idempotencyOf(request);
}
