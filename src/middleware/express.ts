/** `rateLimit` and `idempotent` for Express 4 and 5. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Request, Response } from "express";
import { decisionOf } from "./gate/decisions.ts";
import { type Gate, openGate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { hasNodeBody } from "./gate/preflight.ts";
import type { RequestReader } from "./gate/request-reader.ts";
import { type MiddlewareName, rejectWrongFramework } from "./gate/wrong-framework.ts";
import { enterOnNode, headerOf, nodeResponder, type Responder } from "./hosts/node.ts";
import { readNodeBody } from "./hosts/request-body.ts";
import { idempotencyOf, type RequestIdempotency } from "./idempotency/current.ts";
import { openIdempotency } from "./idempotency/gate.ts";
import type { IdempotencyOptions } from "./idempotency/options.ts";
import { closeSignal, parsedPayload } from "./idempotency/payload.ts";

/** The arguments that callbacks receive. */
export type ExpressArgs = readonly [request: Request, response: Response];

/** The options of `rateLimit`. `onLimited` returns a string or sends a response; status and headers are already set. */
export type ExpressRateLimitOptions<F extends string = string> = RateLimitOptions<ExpressArgs, unknown, F>;

/** The options of `idempotent`. */
export type ExpressIdempotencyOptions = IdempotencyOptions<ExpressArgs>;

/**
 * An Express middleware. It is typed with Node's request: Express would infer the types of route parameters from a
 * middleware that names its `Request`.
 */
export type ExpressMiddleware = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

const reader: RequestReader<ExpressArgs> = {
  method: (args) => args[0].method,
  header: (args, name) => headerOf(args[0], name),
  peer: (args) => args[0].socket.remoteAddress,
  hasBody: (args) => hasNodeBody(args[0]),
  // Not `url`, from which Express removes the path that a router is mounted at.
  path: (args) => args[0].originalUrl,
  body: (args, maxBytes) => readNodeBody(args[0], args[0].body, maxBytes),
};

/** Creates a middleware that limits the requests to everything after it: `app.use(rateLimit({ policy: "100/m" }))`. */
export function rateLimit<F extends string = never>(
  options: ExpressRateLimitOptions<F> & RequiredFacts<F>,
): ExpressMiddleware {
  return middlewareFor(openGate<ExpressArgs, unknown>(options as ExpressRateLimitOptions, reader), options.onLimited);
}

/**
 * Creates a middleware that runs requests with an `Idempotency-Key` once, and replays their responses to retries. Mount it
 * after authentication and the body parser, and before `rateLimit`: `app.post("/payments", idempotent({ store, scope }), …)`.
 */
export function idempotent(options: ExpressIdempotencyOptions): ExpressMiddleware {
  const gate = openIdempotency<ExpressArgs>(options, {
    ...reader,
    payload: (args, maxBytes) => parsedPayload(args[0], args[0].body, maxBytes),
    signal: (args) => closeSignal(args[1]),
  });
  return middlewareFor(gate, undefined, "idempotent");
}

function middlewareFor(
  gate: Gate<ExpressArgs>,
  onLimited: Responder<ExpressArgs>["onLimited"],
  name?: MiddlewareName,
): ExpressMiddleware {
  return (request, response, next) => {
    if (typeof next !== "function" || typeof response.setHeader !== "function") {
      return rejectWrongFramework("express", [request, response, next], name);
    }
    const responderFor = (): Responder<ExpressArgs> => ({ ...nodeResponder(response, onLimited), fail: next });
    enterOnNode({ gate, args: [request as Request, response as Response], response, next, responderFor });
  };
}

/**
 * Returns the decision of the last `rateLimit` middleware that the request passed; `undefined` if none has counted it. In
 * shadow mode the decision may be a denied one.
 */
export function getRateLimit(request: IncomingMessage): RequestDecision | undefined {
  return decisionOf(request);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(request: IncomingMessage): RequestIdempotency | undefined {
  return idempotencyOf(request);
}
