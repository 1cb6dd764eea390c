/** Sends responses with a reply of Fastify, for Fastify itself and for NestJS on it. */
import type { FastifyReply } from "fastify";
import { addAnswerHeaders, addRejectionHeaders, type ResponseHead } from "../../http/response.ts";
import type { HandlerArgs } from "../gate/request-reader.ts";
import type { Responder } from "./node.ts";

/** The headers that are set on a reply. */
export const replyHead: ResponseHead<FastifyReply> = {
  get(reply, name) {
    const value = reply.getHeader(name);
    return value === undefined ? undefined : String(value);
  },
  set: (reply, name, value) => void reply.header(name, value),
  // Fastify adds a cookie to those that are set.
  append: (reply, name, value) => void reply.header(name, value),
  remove: (reply, name) => void reply.removeHeader(name),
};

/** The responder of a reply. */
export function fastifyResponder<Args extends HandlerArgs>(
  reply: FastifyReply,
  onLimited: Responder<Args>["onLimited"],
): Omit<Responder<Args>, "fail"> {
  return {
    onLimited,
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
  };
}
