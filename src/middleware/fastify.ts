/** `rateLimit` for Fastify 5: a hook for an instance, a scope or a route. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import { SluiceError } from "../core/errors.ts";
import { addRejectionHeaders, type ResponseHead } from "../http/response.ts";
import { refuseForeignCall } from "./gate/foreign-call.ts";
import { openGate } from "./gate/gate.ts";
import type { RateLimitOptions } from "./gate/options.ts";
import { hasNodeBody } from "./gate/preflight.ts";
import { enterOnNode, headerOf, type Responder } from "./hosts/node.ts";

/** What a hook of Fastify is called with. */
export type FastifyCall = readonly [request: FastifyRequest, reply: FastifyReply];

/** The options of `rateLimit`. `onLimited` returns the body, or sends a reply: status and headers are set by then. */
export type FastifyRateLimitOptions = RateLimitOptions<FastifyCall, unknown>;

const ofReply: ResponseHead<FastifyReply> = {
  get(reply, name) {
    const value = reply.getHeader(name);
    return value === undefined ? undefined : String(value);
  },
  set: (reply, name, value) => void reply.header(name, value),
  remove: (reply, name) => void reply.removeHeader(name),
};

/** Limits what the hook is added to: `app.addHook("onRequest", rateLimit({ policy: "100/m" }))`. */
export function rateLimit(
  options: FastifyRateLimitOptions,
): (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void {
  const gate = openGate<FastifyCall, unknown>(options, {
    method: (call) => call[0].raw.method ?? "",
    header: (call, name) => headerOf(call[0].raw, name),
    peer: (call) => call[0].raw.socket.remoteAddress,
    hasBody: (call) => hasNodeBody(call[0].raw),
  });
  const { onLimited } = options;
  return (request, reply, done) => {
    if (typeof done !== "function" || !request.raw || !reply.raw) {
      return refuseForeignCall("fastify", [request, reply, done]);
    }
    const responderFor = (): Responder<FastifyCall> => ({
      fail: (error) => done(error instanceof SluiceError ? withoutDetails(error) : error),
      answered: () => reply.sent || reply.raw.headersSent,
      head(status, headers) {
        reply.code(status);
        addRejectionHeaders(ofReply, reply, headers);
      },
      // A text that is sent as JSON would be given a charset, which problem documents do not have.
      send: (body) => void reply.serializer(String).send(body),
      sendOwn(own) {
        if (own === undefined || own === reply) return "later";
        reply.send(own);
        return "sent";
      },
      onLimited,
    });
    enterOnNode(gate, [request, reply], reply.raw, done, responderFor);
  };
}

/** Fastify's own error handler sends messages to clients, and ours may name stored keys and quote the store's server. */
function withoutDetails(cause: SluiceError): Error {
  return Object.assign(new Error("The request could not be checked."), { statusCode: 500, cause });
}
