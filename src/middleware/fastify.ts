/** `rateLimit` for Fastify 5: a hook for an instance, a scope or a route. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import { SluiceError } from "../core/errors.ts";
import { addAnswerHeaders, addRejectionHeaders, type ResponseHead } from "../http/response.ts";
import { decisionOf } from "./gate/decisions.ts";
import { openGate } from "./gate/gate.ts";
import type { RateLimitOptions, RequestDecision, RequiredFacts } from "./gate/options.ts";
import { hasNodeBody } from "./gate/preflight.ts";
import { rejectWrongFramework } from "./gate/wrong-framework.ts";
import { enterOnNode, headerOf, type Responder } from "./hosts/node.ts";
import { readNodeBody } from "./hosts/request-body.ts";

/** The arguments that callbacks of `rateLimit` receive. */
export type FastifyArgs = readonly [request: FastifyRequest, reply: FastifyReply];

/** The options of `rateLimit`. `onLimited` returns the body or sends a reply; status and headers are already set. */
export type FastifyRateLimitOptions<F extends string = string> = RateLimitOptions<FastifyArgs, unknown, F>;

const replyHead: ResponseHead<FastifyReply> = {
  get(reply, name) {
    const value = reply.getHeader(name);
    return value === undefined ? undefined : String(value);
  },
  set: (reply, name, value) => void reply.header(name, value),
  // Fastify adds a cookie to those that are set.
  append: (reply, name, value) => void reply.header(name, value),
  remove: (reply, name) => void reply.removeHeader(name),
};

/** Creates a hook that limits the routes it is added to: `app.addHook("onRequest", rateLimit({ policy: "100/m" }))`. */
export function rateLimit<F extends string = never>(
  options: FastifyRateLimitOptions<F> & RequiredFacts<F>,
): (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void {
  const gate = openGate<FastifyArgs, unknown>(options as FastifyRateLimitOptions, {
    method: (args) => args[0].raw.method ?? "",
    // As the router reads it, after `rewriteUrl`.
    path: (args) => args[0].raw.url ?? "",
    header: (args, name) => headerOf(args[0].raw, name),
    peer: (args) => args[0].raw.socket.remoteAddress,
    hasBody: (args) => hasNodeBody(args[0].raw),
    body: (args, maxBytes) => readNodeBody(args[0].raw, args[0].body, maxBytes),
  });
  const { onLimited } = options;
  return (request, reply, done) => {
    if (typeof done !== "function" || !request.raw || !reply.raw) {
      return rejectWrongFramework("fastify", [request, reply, done]);
    }
    const responderFor = (): Responder<FastifyArgs> => ({
      fail: (error) => done(error instanceof SluiceError ? withoutDetails(error) : error),
      hasResponded: () => reply.sent || reply.raw.headersSent,
      head(status, headers) {
        reply.code(status);
        addRejectionHeaders(replyHead, reply, headers);
      },
      answerHead(status, headers) {
        reply.code(status);
        addAnswerHeaders(replyHead, reply, headers);
      },
      // Fastify adds a charset to a string that is sent as JSON, which problem documents don't have.
      send: (body) => void reply.serializer(String).send(body ?? undefined),
      sendCustom(custom) {
        if (custom === undefined || custom === reply) return "later";
        reply.send(custom);
        return "sent";
      },
      onLimited,
    });
    enterOnNode({ gate, args: [request, reply], response: reply.raw, next: done, responderFor });
  };
}

/**
 * Returns the decision of the last `rateLimit` hook that the request passed; `undefined` if none has counted it. In
 * shadow mode the decision may be a denied one.
 */
export function getRateLimit(request: FastifyRequest): RequestDecision | undefined {
  return decisionOf(request);
}

/** Fastify's default error handler sends messages to clients, and an error may contain stored keys or server text. */
function withoutDetails(cause: SluiceError): Error {
  return Object.assign(new Error("The request could not be checked."), { statusCode: 500, cause });
}
