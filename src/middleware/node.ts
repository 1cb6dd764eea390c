/** `rateLimit` for servers of `node:http`: it wraps the handler that `createServer` is given. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { internalError } from "../http/rejection.ts";
import { refuseForeignCall } from "./gate/foreign-call.ts";
import { openGate } from "./gate/gate.ts";
import type { RateLimitOptions } from "./gate/options.ts";
import { hasNodeBody } from "./gate/preflight.ts";
import { enterOnNode, headerOf, nodeResponder, type Responder } from "./hosts/node.ts";

/** What a handler of `node:http` is called with. */
export type NodeCall = readonly [request: IncomingMessage, response: ServerResponse];

/** The options of `rateLimit`. `onLimited` returns a text, or sends a response: status and headers are set by then. */
export type NodeRateLimitOptions = RateLimitOptions<NodeCall, unknown>;

/** A handler of requests. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Limits the requests that reach a handler: `createServer(rateLimit({ policy: "100/m" })(handler))`. */
export function rateLimit(options: NodeRateLimitOptions): (handler: NodeHandler) => NodeHandler {
  const gate = openGate<NodeCall, unknown>(options, {
    method: (call) => call[0].method ?? "",
    header: (call, name) => headerOf(call[0], name),
    peer: (call) => call[0].socket.remoteAddress,
    hasBody: (call) => hasNodeBody(call[0]),
  });
  const { onLimited } = options;
  const limit = (handler: NodeHandler): NodeHandler => {
    return (request, response) => {
      if (typeof response?.setHeader !== "function") return refuseForeignCall("node", [request, response]);
      const responderFor = (): Responder<NodeCall> => {
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
      enterOnNode(gate, [request, response], response, () => handler(request, response), responderFor);
    };
  };
  return (handler, ...rest: unknown[]) => {
    // Called as a handler itself, by createServer or by another framework.
    if (typeof handler !== "function") refuseForeignCall("node", [handler, ...rest]);
    return limit(handler);
  };
}
