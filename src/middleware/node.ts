/** `rateLimit` for servers of `node:http`: it wraps the handler that `createServer` is given. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { internalError } from "../http/too-many-requests.ts";
import { openGate } from "./gate.ts";
import { enterOnNode, headerOf, waysOnNode } from "./node-server.ts";
import type { RateLimitOptions } from "./options.ts";

/** What a handler of `node:http` is called with. */
export type NodeCall = readonly [request: IncomingMessage, response: ServerResponse];

/** The options of `rateLimit`. `onLimited` gives a text, or writes the body: the status and the headers are set by then. */
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
  const { onLimited } = options;
  return (handler) => (request, response) => {
    const ways = waysOnNode(response);
    enterOnNode(gate, [request, response], response, {
      ...ways,
      go: () => handler(request, response),
      fail() {
        const { status, headers, body } = internalError(headerOf(request, "accept"));
        ways.head(status, headers);
        ways.send(body);
      },
      onLimited,
    });
  };
}
