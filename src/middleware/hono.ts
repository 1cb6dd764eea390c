/** `rateLimit` and `idempotent` for Hono 4, on every runtime that Hono supports. */
import type { Context, Env, MiddlewareHandler } from "hono";
import type { StatusCode } from "hono/utils/http-status";
import { decisionOf } from "./gate/decisions.ts";
import { type Gate, openGate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import type { RequestBody, RequestReader } from "./gate/request-reader.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { type CustomResponse, enterOnFetch, type FetchResponder } from "./hosts/fetch.ts";
import { connectionOf } from "./hosts/fetch-connection.ts";
import { hasBody, hostOf, isPeerless, peerOf, targetOf } from "./hosts/fetch-request.ts";
import { beforeHead } from "./hosts/node-head.ts";
import { parsedBody, readBody } from "./hosts/request-body.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import { openIdempotency } from "./idempotency/gate.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";
import { clonedPayload, comparablePayload } from "./idempotency/payload.ts";

/** The arguments that callbacks receive. */
export type HonoArgs<
  // biome-ignore lint/suspicious/noExplicitAny: as in Hono, a context without an environment has any variable
  E extends Env = any,
> = readonly [context: Context<E>];

/** The options of `rateLimit`. `onLimited` returns a response; RateLimit headers are added, and its status is kept from 400. */
export type HonoRateLimitOptions<
  F extends string = string,
  // biome-ignore lint/suspicious/noExplicitAny: as above
  E extends Env = any,
> = RateLimitOptions<HonoArgs<E>, CustomResponse, F, HonoArgs>;

/** The options of `idempotent`. */
export type HonoIdempotencyOptions<
  // biome-ignore lint/suspicious/noExplicitAny: as above
  E extends Env = any,
> = IdempotencyOptions<HonoArgs<E>>;

/**
 * The variables that the middleware sets on the context. Declare them to type `c.get("rateLimit")`:
 * `new Hono<{ Variables: RateLimitVariables }>()`.
 */
export interface RateLimitVariables {
  /** The decision of the last `rateLimit` that the request passed; `undefined` if none has counted it. */
  rateLimit: RequestDecision | undefined;
}

/** The members of @hono/node-server's environment that are used. */
interface HttpBindings {
  readonly outgoing: Parameters<typeof beforeHead>[0];
}

function readerOf(peerless: boolean): RequestReader<HonoArgs> {
  return {
    method: (args) => args[0].req.method,
    header: (args, name) => args[0].req.header(name),
    peer: (args) => (peerless ? undefined : peerOf(args[0].req.raw, args[0].env)),
    hasBody: (args) => hasBody(args[0].req.raw, args[0].env),
    path: (args) => targetOf(args[0].req.raw),
    host: (args) => hostOf(args[0].req.raw),
    extra: (args) => (args[0].req.raw as { cf?: unknown }).cf,
    body: (args, maxBytes) => readHonoBody(args[0], maxBytes),
    peerless,
  };
}

/**
 * Creates a middleware that limits the requests to everything after it: `app.use(rateLimit({ policy: "100/m" }))`. With
 * the environment of the app, `rateLimit<Env>(options)`, callbacks get a context with its variables and bindings.
 */
export function rateLimit<
  // biome-ignore lint/suspicious/noExplicitAny: as above
  E extends Env = any,
  F extends string = never,
>(options: HonoRateLimitOptions<F, E> & RequiredFacts<F>): MiddlewareHandler<E> {
  const given = options as unknown as HonoRateLimitOptions;
  return middlewareFor(openGate<HonoArgs, CustomResponse>(given, readerOf(isPeerless())), given.onLimited);
}

/**
 * Creates a middleware that runs requests with an `Idempotency-Key` once, and replays their responses to retries. Mount it
 * after authentication and before `rateLimit`: `app.post("/payments", idempotent({ store, scope }), …)`.
 */
export function idempotent<
  // biome-ignore lint/suspicious/noExplicitAny: as above
  E extends Env = any,
>(options: HonoIdempotencyOptions<E>): MiddlewareHandler<E> {
  const gate = openIdempotency<HonoArgs>(options as unknown as HonoIdempotencyOptions, {
    ...readerOf(isPeerless()),
    payload: ([context], maxBytes) => honoPayload(context, maxBytes),
    signal: ([context]) => context.req.raw.signal,
  });
  return middlewareFor(gate, undefined, "idempotent");
}

function middlewareFor(
  gate: Gate<HonoArgs>,
  onLimited: FetchResponder<HonoArgs>["onLimited"],
  name?: MiddlewareName,
): MiddlewareHandler {
  const enter: MiddlewareHandler = async (context, next) => {
    let handled: Response | undefined;
    const response = await enterOnFetch(gate, [context], context.req.raw, {
      async next() {
        const decision = decisionOf(context);
        if (decision) context.set("rateLimit", decision);
        await next();
        return (handled = context.res);
      },
      fail(error) {
        throw error;
      },
      addHeadersOnSend(pendingHeaders) {
        // On Node, Hono builds a response's headers from scratch once they are accessed.
        const { outgoing } = (context.env ?? {}) as Partial<HttpBindings>;
        if (typeof outgoing?.writeHead !== "function") return false;
        beforeHead(outgoing, pendingHeaders);
        return true;
      },
      connection: () => connectionOf((context.env as Partial<HttpBindings> | undefined)?.outgoing),
      respond: (body, status) => context.newResponse(body as string, status as StatusCode),
      thrown: () => context.error,
      onLimited,
    });
    if (response === handled) return;
    // Cleared first, because Hono copies the headers of the previous response to a new one.
    context.res = undefined;
    context.res = response;
  };
  return (context, next, ...rest: unknown[]) => {
    if (typeof next === "function" && context?.req?.raw !== undefined) return enter(context, next);
    return rejectWrongFramework("hono", [context, next, ...rest], name) as never;
  };
}

/** Reads a clone of the body, or what Hono has kept of it for a validator, for example. */
async function honoPayload(context: Context, maxBytes: number): Promise<Uint8Array | undefined> {
  if (!context.req.raw.bodyUsed) return clonedPayload(context.req.raw, maxBytes);
  return comparablePayload(await readHonoBody(context, maxBytes), maxBytes);
}

/** Reads a clone of the body, or what Hono has kept of a body that was read before. */
async function readHonoBody({ req }: Context, maxBytes: number): Promise<RequestBody | undefined> {
  if (!req.raw.bodyUsed) return readBody(req.raw, maxBytes);
  try {
    const isForm = /^(?:multipart\/form-data|application\/x-www-form-urlencoded)/i.test(
      req.header("content-type") ?? "",
    );
    return parsedBody(await (isForm ? req.parseBody() : req.text()), maxBytes);
  } catch {
    // Read from `req.raw`, which keeps nothing.
    return undefined;
  }
}

/**
 * Returns the decision of the last `rateLimit` middleware that the request passed; `undefined` if none has counted it.
 * `c.get("rateLimit")` returns the same, see `RateLimitVariables`. In shadow mode the decision may be a denied one.
 */
export function getRateLimit(context: Context): RequestDecision | undefined {
  return decisionOf(context);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(context: Context): RequestIdempotency | undefined {
  return idempotencyOf(context);
}
