/** Rules in real apps of Fastify 5: unusual spellings of paths, with a strict and with a lenient router. */
import { type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { rateLimit } from "sluice/fastify";
import { RULE_ROUTES, responseHeaders, ruleSpellings } from "../rule-spellings.ts";
import { started } from "./app.ts";

const LENIENT = { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true };

for (const [name, serverOptions] of [
  ["Fastify 5", {}],
  ["Fastify 5 with a lenient router", { routerOptions: LENIENT }],
  ["Fastify 5 with useSemicolonDelimiter", { routerOptions: LENIENT, useSemicolonDelimiter: true }],
] as const) {
  ruleSpellings(name, (options) => {
    const app = fastify(serverOptions);
    app.addHook("onRequest", rateLimit(options));
    for (const [handler, path] of RULE_ROUTES) {
      app.get(path, async (request: FastifyRequest, reply: FastifyReply) =>
        reply.headers(responseHeaders(handler, request.raw.url)).send("ok"),
      );
    }
    return started(app);
  });
}
