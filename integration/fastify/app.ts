/** The routes of the suite as a Fastify app: each route is a scope with its own hooks. */
import { once } from "node:events";
import { Readable } from "node:stream";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { type FastifyRateLimitOptions, getRateLimit, idempotent, rateLimit, rateLimitPlugin } from "sluice/fastify";
import type { GuardedRoute, RouteKit, RunningServer } from "sluice/testing";
import { inOrder } from "../../test/middleware/in-order.ts";

export const kit: RouteKit = {
  header: ([request]: readonly [FastifyRequest], name) => request.headers[name] as string | undefined,
  respondWith([, reply]: readonly [FastifyRequest, FastifyReply], text, status) {
    if (status !== undefined) reply.code(status);
    return text;
  },
};

/** Where the limits are: hooks of a scope or of a route, a plugin in each scope, or the config of routes. */
export type Place = "scope" | "route" | "plugin" | "config";

export function startApp(place: Place, routes: readonly GuardedRoute[]): Promise<RunningServer> {
  const app = fastify();
  for (const route of routes) {
    const { path, before, idempotency, isIdempotencyLast, rateLimits, handle } = route;
    // The body is parsed after onRequest.
    const hook = idempotency ? "preHandler" : "onRequest";
    // Created only where they are used: abuse prevention can be mounted once.
    const limits = place === "scope" || place === "route" ? rateLimits : [];
    const idempotents = idempotency ? [idempotent(idempotency)] : [];
    const hooks = [
      async (_request: FastifyRequest, reply: FastifyReply) => void reply.headers(before),
      ...inOrder(
        route,
        idempotents,
        limits.map((options) => rateLimit(options as FastifyRateLimitOptions)),
      ),
    ];
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      const { pathname } = new URL(request.url, "http://localhost");
      const { status, headers, body } = await handle(pathname, once(reply.raw, "close"), getRateLimit(request));
      return reply
        .code(status)
        .headers(headers as Record<string, string | string[]>)
        .send(typeof body === "string" || body instanceof Uint8Array ? body : Readable.fromWeb(body as never));
    };
    const [first, ...others] = rateLimits as readonly FastifyRateLimitOptions[];
    app.register(async (scope) => {
      if (place === "plugin" || place === "config") {
        scope.addHook("onRequest", async (_request, reply) => void reply.headers(before));
        const addIdempotents = () => idempotents.forEach((one) => void scope.addHook("preHandler", one));
        if (!isIdempotencyLast) addIdempotents();
        if (first) scope.register(rateLimitPlugin, { hook, ...(place === "plugin" ? first : { global: false }) });
        await scope.after();
        if (isIdempotencyLast) addIdempotents();
        const config = place === "config" && first ? { rateLimit: first } : {};
        for (const url of [path, `${path}/*`]) {
          scope.all(url, { config, [hook]: others.map((options) => scope.sluice(options)) }, handler);
        }
        return;
      }
      if (place === "scope") for (const one of hooks) scope.addHook(hook as "preHandler", one);
      for (const url of [path, `${path}/*`]) scope.all(url, place === "route" ? { [hook]: hooks } : {}, handler);
    });
  }
  return started(app);
}

/** Listens on a free port. */
export async function started(app: FastifyInstance): Promise<RunningServer> {
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  return {
    url,
    async close() {
      app.server.closeAllConnections();
      await app.close();
    },
  };
}
