/** `rateLimit` for tRPC 11: a middleware that counts procedures, also those of one batch. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { TRPCError, type TRPCMiddlewareFunction, type TRPCProcedureType } from "@trpc/server";
import { SluiceError } from "../base/errors.ts";
import { withoutContentType } from "../http/rejection.ts";
import { addRateLimitHeaders, type PendingHeaders, type ResponseHead } from "../http/response.ts";
import { decisionOf } from "./gate/decisions.ts";
import { type Gate, openGate } from "./gate/gate.ts";
import type { LimitedRequest, RateLimitOptions, RequestDecision } from "./gate/options.ts";
import { rejectWrongFramework } from "./gate/wrong-framework.ts";
import { BatchHeaders } from "./hosts/batch-headers.ts";
import { enterCall } from "./hosts/call.ts";
import { connectionOf } from "./hosts/fetch-connection.ts";
import { peerOf } from "./hosts/fetch-request.ts";
import { headerOf } from "./hosts/node.ts";
import { beforeHead } from "./hosts/node-head.ts";
import { watchStream } from "./hosts/watch-stream.ts";

/** A call of a procedure, as passed to callbacks. */
export interface TrpcCall<Context> {
  /** The context, with what earlier middleware has added. */
  readonly ctx: Context;
  /** The path of the procedure, such as `post.create`. */
  readonly path: string;
  /** Whether it is a query, a mutation or a subscription. */
  readonly type: TRPCProcedureType;
  /** The input as parsed by the parsers before `rateLimit`; `undefined` without one. */
  readonly input: unknown;
  /** Reads the input as it was sent. */
  readonly getRawInput: () => Promise<unknown>;
  /** The meta of the procedure. */
  readonly meta: unknown;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal | undefined;
}

/** The arguments that callbacks of `rateLimit` receive. */
export type TrpcArgs<Context> = readonly [call: TrpcCall<Context>];

/** The options of `rateLimit`. `onLimited` returns a message for the client, or an error to throw. */
export type TrpcRateLimitOptions<Context, F extends string = string> = Omit<
  RateLimitOptions<TrpcArgs<Context>, string | Error | undefined | Promise<string | Error | undefined>, F>,
  "preflight"
>;

/** What the middleware adds to the context. */
export interface RateLimitContext {
  /** The decision of the last `rateLimit` that the call passed; `undefined` if none has counted it. */
  rateLimit: RequestDecision | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: the types of the router, which do not matter here
type AnyMiddleware = TRPCMiddlewareFunction<any, any, any, RateLimitContext, any>;
type Result = Awaited<ReturnType<AnyMiddleware>>;

/** A middleware for `t.procedure.use` and `t.middleware`. */
export type TrpcMiddleware<Context> = (
  call: TrpcCall<Context> & Pick<Parameters<AnyMiddleware>[0], "next">,
) => ReturnType<AnyMiddleware>;

/** The members of a context that are used: the request and response of an adapter. */
interface AdapterContext {
  readonly req?: IncomingMessage | Request;
  /** Without a request, as in server components of Next.js. */
  readonly headers?: Headers;
  /** Of Node. */
  readonly res?: ServerResponse;
  /** Of the fetch adapter. */
  readonly resHeaders?: Headers;
  readonly info?: unknown;
}

/** The cause of the `TRPCError` of a denied call. */
export class RateLimitError extends Error {
  /** The denied decision. */
  readonly decision: LimitedRequest<readonly unknown[]>["decision"];
  /** The key of the limit that denied. */
  readonly key: string;
  /** The rule of the limit that denied, if there are rules. */
  readonly rule: string | undefined;

  constructor(message: string, { decision, key, rule }: Omit<LimitedRequest<readonly unknown[]>, "args">) {
    super(message);
    this.name = "RateLimitError";
    this.decision = decision;
    this.key = key;
    this.rule = rule;
  }
}

/**
 * Creates a middleware that limits procedures: `t.procedure.use(rateLimit({ policy: "100/m" }))`. Clients are identified by
 * `ctx.req`, which `createContext` has to return, or by `key`.
 */
export function rateLimit<Context extends object, F extends string = never>(
  options: TrpcRateLimitOptions<Context, F>,
): TrpcMiddleware<Context> {
  const gate = openGate<TrpcArgs<Context>, unknown>(options as RateLimitOptions<TrpcArgs<Context>, unknown>, {
    method: ([{ type }]) => (type === "mutation" ? "POST" : "GET"),
    path: ([{ path }]) => `/${path}`,
    isCall: true,
    header: ([{ ctx }], name) => requestHeader(ctx, name),
    peer: ([{ ctx }]) => peerOfContext(ctx),
    hasBody: ([{ type }]) => type === "mutation",
    body: async ([{ getRawInput }]) => ({ parsed: await getRawInput() }),
    repeatable: true,
  });
  const { onLimited } = options;
  const headers = new ContextHeaders();
  return async (call, ...rest: unknown[]) => {
    if (typeof call?.next !== "function" || typeof call.getRawInput !== "function") {
      return rejectWrongFramework("trpc", [call, ...rest]) as never;
    }
    const { next, ...seen } = call;
    const args: TrpcArgs<Context> = [seen];
    try {
      return await enterCall<TrpcArgs<Context>, Result>(gate, args, {
        next: () =>
          next({ ctx: { rateLimit: decisionOf(seen) ?? (seen.ctx as Partial<RateLimitContext>)?.rateLimit } }),
        async reject({ status, headers: fields, body }, limited) {
          headers.add(seen.ctx, { fields: withoutContentType(fields as Record<string, string>), exhausted: false });
          throw (limited && (await ownError(gate, limited, onLimited))) ?? errorFor(status, messageOf(body), limited);
        },
        addHeaders: (pendingHeaders) => headers.add(seen.ctx, pendingHeaders),
        signal: seen.signal,
        connection: () => connectionOf((seen.ctx as AdapterContext | undefined)?.res),
        disconnected: () => new TRPCError({ code: "CLIENT_CLOSED_REQUEST" }),
        errorOf: (result) => (result.ok ? undefined : result.error),
        watch(result, finish) {
          const data = watchStream((result as { data: unknown }).data, finish, seen.signal);
          return data === undefined ? undefined : ({ ...result, data } as Result);
        },
      });
    } catch (error) {
      throw error instanceof SluiceError ? withoutDetails(error) : error;
    }
  };
}

/** The error of `onLimited`, if it returns one. */
async function ownError<Context>(
  gate: Gate<TrpcArgs<Context>>,
  limited: LimitedRequest<TrpcArgs<Context>>,
  onLimited: TrpcRateLimitOptions<Context>["onLimited"],
): Promise<Error | undefined> {
  try {
    const own = await onLimited?.(limited);
    return typeof own === "string" ? errorFor(limited.decision.unavailable ? 503 : 429, own, limited) : own;
  } catch (error) {
    gate.callbackFailed("onLimited", error, limited.args);
    return undefined;
  }
}

const CODES = { 400: "BAD_REQUEST", 403: "FORBIDDEN", 429: "TOO_MANY_REQUESTS", 503: "SERVICE_UNAVAILABLE" } as const;

function errorFor(status: number, message: string, limited?: LimitedRequest<readonly unknown[]>): TRPCError {
  const code = CODES[status as keyof typeof CODES] ?? "INTERNAL_SERVER_ERROR";
  return new TRPCError({ code, message, ...(limited && { cause: new RateLimitError(message, limited) }) });
}

/** The sentence of a problem document. */
function messageOf(body: unknown): string {
  try {
    const { title, detail } = JSON.parse(String(body));
    return detail ?? title;
  } catch {
    return String(body);
  }
}

/** tRPC sends the messages of errors to clients, and a `SluiceError` may contain stored keys or server text. */
function withoutDetails(cause: SluiceError): TRPCError {
  return new TRPCError({ code: "INTERNAL_SERVER_ERROR", message: "The call could not be checked.", cause });
}

function requestHeader(context: object, name: string): string | undefined {
  const { req, headers = req?.headers } = (context ?? {}) as AdapterContext;
  if (typeof (headers as Headers | undefined)?.get === "function") return (headers as Headers).get(name) ?? undefined;
  return req && headerOf(req as IncomingMessage, name);
}

function peerOfContext(context: object): string | undefined {
  const { req, headers, info } = (context ?? {}) as AdapterContext;
  if (!req && !headers) {
    const message =
      "The tRPC context has no request to identify clients by. Return { req, res } of the adapter from createContext, or set key.";
    throw new SluiceError("unidentified", message, { option: "key", expected: "ctx.req, or key" });
  }
  return (req as IncomingMessage | undefined)?.socket?.remoteAddress ?? peerOf(req as Request, info);
}

/** Adds the fields of calls to the response of their context, if it has one. Those of a batch share it. */
class ContextHeaders {
  private readonly batches = new BatchHeaders();

  add(context: object, headers: PendingHeaders): void {
    const { res, resHeaders } = (context ?? {}) as AdapterContext;
    if (typeof res?.writeHead === "function" && !res.headersSent) {
      const added = this.batches.add(res, headers);
      if (added) beforeHead(res, added);
    } else if (typeof resHeaders?.set === "function") addToAll(resHeaders, this, headers);
  }
}

const fetchHead: ResponseHead<Headers> = {
  get: (headers, name) => headers.get(name) ?? undefined,
  set: (headers, name, value) => headers.set(name, value),
  append: (headers, name, value) => headers.append(name, value),
  remove: (headers, name) => headers.delete(name),
};

/** The fields that each middleware has added to a response of the fetch adapter. */
const added = /* @__PURE__ */ new WeakMap<Headers, Map<object, PendingHeaders>>();

/** Adds fields at once, and in place of those that the same middleware has added for another call of the batch. */
function addToAll(target: Headers, owner: object, headers: PendingHeaders): void {
  const all = added.get(target) ?? new Map<object, PendingHeaders>();
  added.set(target, all);
  for (const { fields } of all.values()) for (const name in fields) target.delete(name);
  all.set(owner, headers);
  for (const pending of all.values()) addRateLimitHeaders(fetchHead, target, 200, pending);
}

/** What `rateLimitErrorFormatter` adds to the data of an error. */
export interface RateLimitErrorData {
  /** When to retry, in ms; `null` if the call can never be allowed. */
  readonly retryAfterMs: number | null;
  /** The name of the policy that denied. */
  readonly policy: string;
  /** The rule of the limit that denied, if there are rules. */
  readonly rule?: string;
}

/**
 * Adds `retryAfterMs`, `policy` and `rule` to the data of errors of denied calls:
 * `initTRPC.create({ errorFormatter: rateLimitErrorFormatter })`. Call it inside of a formatter of your own.
 */
export function rateLimitErrorFormatter<Shape extends { data: object }>({
  shape,
  error,
}: {
  shape: Shape;
  error: { readonly cause?: unknown };
}): Shape & { data: Shape["data"] & Partial<RateLimitErrorData> } {
  const { cause } = error;
  if (!(cause instanceof RateLimitError)) return shape;
  const { decision, rule } = cause;
  const data: RateLimitErrorData = {
    retryAfterMs: decision.retryAfterMs,
    policy: decision.policy,
    ...(rule !== undefined && { rule }),
  };
  return { ...shape, data: { ...shape.data, ...data } };
}
