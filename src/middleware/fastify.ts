/** `rateLimit` for Fastify 5: a hook for an instance, a scope or a route. */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import { type ResponseHead, tellRejection } from "../http/response.ts";
import { openGate } from "./gate.ts";
import { enterOnNode, headerOf, type Ways } from "./node-server.ts";
import type { RateLimitOptions } from "./options.ts";

/** What a hook of Fastify is called with. */
export type FastifyCall = readonly [request: FastifyRequest, reply: FastifyReply];

/** The options of `rateLimit`. `onLimited` gives the body, or sends it: the status and the headers are set by then. */
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
  });
  const { onLimited } = options;
  return (request, reply, done) => {
    const waysOf = (): Ways<FastifyCall> => ({
      fail: done,
      answered: () => reply.sent || reply.raw.headersSent,
      head(status, headers) {
        reply.code(status);
        tellRejection(ofReply, reply, headers);
      },
      // A text that is sent as JSON would be given a charset, which problem documents do not have.
      send: (body) => void reply.serializer(String).send(body),
      sendOwn(own) {
        if (own !== undefined && own !== reply) reply.send(own);
      },
      onLimited,
    });
    enterOnNode(gate, [request, reply], reply.raw, done, waysOf);
  };
}
