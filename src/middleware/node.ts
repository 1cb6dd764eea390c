/** `rateLimit` and `idempotent` for `node:http` and HTTP/2 servers: they wrap the handler that is passed to `createServer`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { internalError } from "../http/rejection.ts";
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
import { closeSignal, streamPayload } from "./idempotency/payload.ts";

/** The arguments that callbacks of `rateLimit` receive. */
export type NodeArgs = readonly [request: IncomingMessage, response: ServerResponse];

/** The options of `rateLimit`. `onLimited` returns a string or sends a response; status and headers are already set. */
export type NodeRateLimitOptions<F extends string = string> = RateLimitOptions<NodeArgs, unknown, F>;

/** A request handler, as `createServer` takes it. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** The options of `idempotent`. */
export type NodeIdempotencyOptions = IdempotencyOptions<NodeArgs>;

const reader: RequestReader<NodeArgs> = {
  method: (args) => args[0].method ?? "",
  header: (args, name) => headerOf(args[0], name),
  peer: (args) => args[0].socket.remoteAddress,
  hasBody: (args) => hasNodeBody(args[0]),
  path: (args) => args[0].url ?? "",
  body: (args, maxBytes) => readNodeBody(args[0], bodyOf(args[0]), maxBytes),
};

/** Creates a function that wraps a handler and limits its requests: `createServer(rateLimit({ policy: "100/m" })(handler))`. */
export function rateLimit<F extends string = never>(
  options: NodeRateLimitOptions<F> & RequiredFacts<F>,
): (handler: NodeHandler) => NodeHandler {
  return wrapperFor(openGate<NodeArgs, unknown>(options as NodeRateLimitOptions, reader), options.onLimited);
}

/**
 * Creates a function that wraps a handler, runs requests with an `Idempotency-Key` once, and replays their responses to
 * retries: `createServer(idempotent({ store, scope })(rateLimit(options)(handler)))`. The handler reads the body from the
 * request as usual.
 */
export function idempotent(options: NodeIdempotencyOptions): (handler: NodeHandler) => NodeHandler {
  const gate = openIdempotency<NodeArgs>(options, {
    ...reader,
    payload: (args, maxBytes) => streamPayload(args[0], bodyOf(args[0]), maxBytes),
    signal: (args) => closeSignal(args[1]),
  });
  return wrapperFor(gate, undefined, "idempotent");
}

function wrapperFor(
  gate: Gate<NodeArgs>,
  onLimited: Responder<NodeArgs>["onLimited"],
  name?: MiddlewareName,
): (handler: NodeHandler) => NodeHandler {
  const wrap = (handler: NodeHandler): NodeHandler => {
    return (request, response) => {
      if (typeof response?.setHeader !== "function") return rejectWrongFramework("node", [request, response], name);
      const responderFor = (): Responder<NodeArgs> => {
        const responder = nodeResponder(response, onLimited);
        return {
          ...responder,
          fail(error) {
            gate.requestFailed(error);
            const { status, headers, body } = internalError(headerOf(request, "accept"));
            responder.head(status, headers);
            responder.send(body);
          },
        };
      };
      const next = (): unknown => handler(request, response);
      enterOnNode({ gate, args: [request, response], response, next, responderFor });
    };
  };
  return (handler, ...rest: unknown[]) => {
    // Called as a handler itself, by createServer or by another framework.
    if (typeof handler !== "function") rejectWrongFramework("node", [handler, ...rest], name);
    return wrap(handler);
  };
}

/** The body that some platforms parse before they call the handler. */
function bodyOf(request: IncomingMessage): unknown {
  return (request as { body?: unknown }).body;
}

/**
 * Returns the decision of the last `rateLimit` wrapper that the request passed; `undefined` if none has counted it. In
 * shadow mode the decision may be a denied one.
 */
export function getRateLimit(request: IncomingMessage): RequestDecision | undefined {
  return decisionOf(request);
}

/** Returns the key and the attempt of a request that runs under an idempotency key; `undefined` without one. */
export function getIdempotency(request: IncomingMessage): RequestIdempotency | undefined {
  return idempotencyOf(request);
}
