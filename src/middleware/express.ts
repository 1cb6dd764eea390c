/** `rateLimit` for Express 4 and 5. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Request, Response } from "express";
import { refuseForeignCall } from "./gate/foreign-call.ts";
import { openGate } from "./gate/gate.ts";
import type { RateLimitOptions } from "./gate/options.ts";
import { hasNodeBody } from "./gate/preflight.ts";
import { enterOnNode, headerOf, nodeResponder, type Responder } from "./hosts/node.ts";

/** What a middleware of Express is called with. */
export type ExpressCall = readonly [request: Request, response: Response];

/** The options of `rateLimit`. `onLimited` returns a text, or sends a response: status and headers are set by then. */
export type ExpressRateLimitOptions = RateLimitOptions<ExpressCall, unknown>;

/**
 * A middleware of Express. It is typed by what Express builds on: a `Request` would take part in finding out the types of
 * a route's parameters.
 */
export type ExpressMiddleware = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** Limits what comes after it: `app.use(rateLimit({ policy: "100/m" }))`. */
export function rateLimit(options: ExpressRateLimitOptions): ExpressMiddleware {
  const gate = openGate<ExpressCall, unknown>(options, {
    method: (call) => call[0].method,
    header: (call, name) => headerOf(call[0], name),
    peer: (call) => call[0].socket.remoteAddress,
    hasBody: (call) => hasNodeBody(call[0]),
  });
  const { onLimited } = options;
  return (request, response, next) => {
    if (typeof next !== "function" || typeof response.setHeader !== "function") {
      return refuseForeignCall("express", [request, response, next]);
    }
    const responderFor = (): Responder<ExpressCall> => ({ ...nodeResponder(response, onLimited), fail: next });
    enterOnNode(gate, [request as Request, response as Response], response, next, responderFor);
  };
}
