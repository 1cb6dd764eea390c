/** `rateLimit` for `node:http` and HTTP/2 servers: it wraps the handler that is passed to `createServer`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { internalError } from "../http/rejection.ts";
import { decisionOf } from "./gate/decisions.ts";
import { openGate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { hasNodeBody } from "./gate/preflight.ts";
import { rejectWrongFramework } from "./gate/wrong-framework.ts";
import { enterOnNode, headerOf, nodeResponder, type Responder } from "./hosts/node.ts";
import { readNodeBody } from "./hosts/request-body.ts";

/** The arguments that callbacks of `rateLimit` receive. */
export type NodeArgs = readonly [request: IncomingMessage, response: ServerResponse];

/** The options of `rateLimit`. `onLimited` returns a string or sends a response; status and headers are already set. */
export type NodeRateLimitOptions<F extends string = string> = RateLimitOptions<NodeArgs, unknown, F>;

/** A request handler, as `createServer` takes it. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Creates a function that wraps a handler and limits its requests: `createServer(rateLimit({ policy: "100/m" })(handler))`. */
export function rateLimit<F extends string = never>(
  options: NodeRateLimitOptions<F> & RequiredFacts<F>,
): (handler: NodeHandler) => NodeHandler {
  const gate = openGate<NodeArgs, unknown>(options as NodeRateLimitOptions, {
    method: (args) => args[0].method ?? "",
    header: (args, name) => headerOf(args[0], name),
    peer: (args) => args[0].socket.remoteAddress,
    hasBody: (args) => hasNodeBody(args[0]),
    path: (args) => args[0].url ?? "",
    body: (args, maxBytes) => readNodeBody(args[0], (args[0] as { body?: unknown }).body, maxBytes),
  });
  const { onLimited } = options;
  const wrap = (handler: NodeHandler): NodeHandler => {
    return (request, response) => {
      if (typeof response?.setHeader !== "function") return rejectWrongFramework("node", [request, response]);
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
      const next = (): void => handler(request, response);
      enterOnNode({ gate, args: [request, response], response, next, responderFor });
    };
  };
  return (handler, ...rest: unknown[]) => {
    // Called as a handler itself, by createServer or by another framework.
    if (typeof handler !== "function") rejectWrongFramework("node", [handler, ...rest]);
    return wrap(handler);
  };
}

/**
 * Returns the decision of the last `rateLimit` wrapper that the request passed; `undefined` if none has counted it. In
 * shadow mode the decision may be a denied one.
 */
export function getRateLimit(request: IncomingMessage): RequestDecision | undefined {
  return decisionOf(request);
}
