/** `rateLimit` and `idempotent` for Koa 2 and 3. */
import type { Context, Middleware } from "koa";
import { addAnswerHeaders, addRejectionHeaders, type ResponseHead } from "../http/response.ts";
import { decisionOf } from "./gate/decisions.ts";
import { type Gate, openGate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { hasNodeBody } from "./gate/preflight.ts";
import type { RequestReader } from "./gate/request-reader.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { enterOnNode, headerOf, type Responder } from "./hosts/node.ts";
import { isClosed, onceClosed } from "./hosts/node-close.ts";
import { readNodeBody } from "./hosts/request-body.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import { openIdempotency } from "./idempotency/gate.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";
import { closeSignal, parsedPayload } from "./idempotency/payload.ts";

/** The arguments that callbacks receive. */
export type KoaArgs = readonly [context: Context];

/** The options of `rateLimit`. `onLimited` returns a body or sets `ctx.body`; status and headers are already set. */
export type KoaRateLimitOptions<F extends string = string> = RateLimitOptions<KoaArgs, unknown, F>;

const contextHead: ResponseHead<Context> = {
  get: (context, name) => context.response.get(name) || undefined,
  set: (context, name, value) => context.set(name, value),
  append: (context, name, value) => context.append(name, value),
  remove: (context, name) => context.remove(name),
};

/** The options of `idempotent`. */
export type KoaIdempotencyOptions = IdempotencyOptions<KoaArgs>;

const reader: RequestReader<KoaArgs> = {
  method: ([{ req }]) => req.method ?? "",
  // Not `req.url`, from which koa-mount removes the path that an app is mounted at.
  path: ([context]) => (context.req as { originalUrl?: string }).originalUrl ?? context.originalUrl,
  header: ([{ req }], name) => headerOf(req, name),
  peer: ([{ req }]) => req.socket.remoteAddress,
  hasBody: ([{ req }]) => hasNodeBody(req),
  body: ([context], maxBytes) => readNodeBody(context.req, parsedBodyOf(context), maxBytes),
};

/** Creates a middleware that limits the requests to everything after it: `app.use(rateLimit({ policy: "100/m" }))`. */
export function rateLimit<F extends string = never>(options: KoaRateLimitOptions<F> & RequiredFacts<F>): Middleware {
  return middlewareFor(openGate<KoaArgs, unknown>(options as KoaRateLimitOptions, reader), options.onLimited);
}

/**
 * Creates a middleware that runs requests with an `Idempotency-Key` once, and replays their responses to retries:
 * `app.use(idempotent({ store, scope }))`. Mount it after authentication and the body parser, and before `rateLimit`.
 */
export function idempotent(options: KoaIdempotencyOptions): Middleware {
  const gate = openIdempotency<KoaArgs>(options, {
    ...reader,
    payload: ([context], maxBytes) => parsedPayload(context.req, parsedBodyOf(context), maxBytes),
    signal: ([context]) => closeSignal(context.res),
  });
  return middlewareFor(gate, undefined, "idempotent");
}

function middlewareFor(
  gate: Gate<KoaArgs>,
  onLimited: Responder<KoaArgs>["onLimited"],
  name?: MiddlewareName,
): Middleware {
  return (context, next, ...rest: unknown[]) => {
    if (typeof next !== "function" || typeof context?.res?.setHeader !== "function") {
      return rejectWrongFramework("koa", [context, next, ...rest], name);
    }
    return new Promise<void>((resolve, reject) => {
      let isPassed = false;
      const respond = (body: unknown): void => {
        // Koa responds with 204 if there is no body, and with its own status if none was set.
        const { status } = context;
        context.body = body;
        context.status = status;
        resolve();
      };
      const responderFor = (): Responder<KoaArgs> => ({
        fail: reject,
        hasResponded: () => context.headerSent || context.res.writableEnded,
        head(status, headers) {
          context.status = status;
          addRejectionHeaders(contextHead, context, headers);
        },
        answerHead(status, headers) {
          context.status = status;
          addAnswerHeaders(contextHead, context, headers);
        },
        send: (body) => respond(body instanceof Uint8Array ? Buffer.from(body) : body),
        sendCustom(custom) {
          respond(custom);
          return "sent";
        },
        // A callback may set ctx.body itself.
        onLimited: onLimited && (async (limited) => (await onLimited(limited)) ?? context.body ?? undefined),
      });
      const entered = enterOnNode({
        gate,
        args: [context],
        response: context.res,
        next() {
          isPassed = true;
          return Promise.resolve(next()).then(
            () => {
              if (name === "idempotent") writeClosed(context);
              resolve();
            },
            (error) => {
              if (name === "idempotent") failClosed(context, error);
              reject(error);
            },
          );
        },
        responderFor,
      });
      // Without a handler or a response: the middleware before this one waits for the promise.
      const resolveOnClose = (): void => {
        const { res } = context;
        if (isPassed) return;
        if (isClosed(res) || res.writableEnded) resolve();
        else onceClosed(res, () => isPassed || resolve());
      };
      if (entered) entered.then(resolveOnClose);
      else resolveOnClose();
    });
  };
}

/**
 * Writes a response whose client has disconnected, so that it is captured: Koa would not, or without its body. A stream is
 * not read: its response is captured without a body, and a retry does not run the handler again.
 */
function writeClosed({ res, body, respond }: Context): void {
  if (!isClosed(res) || res.writableEnded || respond === false) return;
  if (body === null || body === undefined) res.end();
  else if (typeof body === "string" || body instanceof Uint8Array) res.end(body);
  else if (isStreamed(body)) res.destroy();
  else res.end(JSON.stringify(body));
}

/** Whether a body is read by calling a method: a stream of Node or of the web, a Blob or a Response. */
function isStreamed(body: object): boolean {
  return ["pipe", "getReader", "arrayBuffer"].some(
    (name) => typeof (body as Record<string, unknown>)[name] === "function",
  );
}

/** Ends the response of a handler that has thrown after its client has disconnected: Koa would not. */
function failClosed({ res }: Context, error: unknown): void {
  if (!isClosed(res) || res.writableEnded) return;
  const { status, statusCode = status } = (error ?? {}) as { status?: unknown; statusCode?: unknown };
  res.statusCode = typeof statusCode === "number" && statusCode >= 400 && statusCode < 600 ? statusCode : 500;
  res.end();
}

/** What a body parser has left: koa-body and koa-bodyparser set it on the request. */
function parsedBodyOf(context: Context): unknown {
  return (context as { request?: { body?: unknown } }).request?.body;
}

/**
 * Returns the decision of the last `rateLimit` middleware that the request passed; `undefined` if none has counted it. In
 * shadow mode the decision may be a denied one.
 */
export function getRateLimit(context: Context): RequestDecision | undefined {
  return decisionOf(context);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(context: Context): RequestIdempotency | undefined {
  return idempotencyOf(context);
}
