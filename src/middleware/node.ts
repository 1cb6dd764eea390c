/** `rateLimit` for servers of `node:http`: it wraps the handler that `createServer` is given. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { internalError } from "../http/too-many-requests.ts";
import { openGate } from "./gate.ts";
import { answerOnNode, enterOnNode, headerOf } from "./node-server.ts";
import type { RateLimitOptions } from "./options.ts";

/** What a handler of `node:http` is called with. */
export type NodeCall = readonly [request: IncomingMessage, response: ServerResponse];

/** The options of `rateLimit`. `onLimited` writes the body: the status and the headers are set by then. */
export type NodeRateLimitOptions = RateLimitOptions<NodeCall, unknown>;

/** A handler of requests. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Limits the requests that reach a handler: `createServer(rateLimit({ policy: "100/m" })(handler))`. */
export function rateLimit(options: NodeRateLimitOptions): (handler: NodeHandler) => NodeHandler {
  const gate = openGate<NodeCall, unknown>(options, {
    method: ([request]) => request.method ?? "",
    header: ([request], name) => headerOf(request, name),
    peer: ([request]) => request.socket.remoteAddress,
  });
  return (handler) => (request, response) => {
    enterOnNode(gate, [request, response], response, {
      go: () => handler(request, response),
      answer: (answer, limited) => answerOnNode(response, answer, limited, options.onLimited),
      fail() {
        if (response.headersSent) response.destroy();
        else answerOnNode(response, internalError(headerOf(request, "accept")));
      },
    });
  };
}
