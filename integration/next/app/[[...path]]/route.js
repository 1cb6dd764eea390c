/** The routes of the suite as route handlers. */
import { getRateLimit, idempotent, limitRoute } from "sluice/next";
import { routeOf, routes } from "../../routes.js";

/** The handler of a route, inside of its limits. */
function handlerOf(route) {
  const respond = async (request) => {
    const { signal } = request;
    const disconnected = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    const { pathname } = new URL(request.url);
    const { status, headers, body } = await route.handle(pathname, disconnected, getRateLimit(request));
    const sent = new Headers(route.before);
    for (const [name, value] of Object.entries(headers)) {
      sent.delete(name);
      for (const one of [value].flat()) sent.append(name, one);
    }
    return new Response(status === 204 || status === 304 ? null : body, { status, headers: sent });
  };
  // With PROXIED, proxy.js limits the routes.
  const limits = process.env.PROXIED ? [] : route.rateLimits.map((options) => limitRoute(options));
  const idempotents = route.idempotency ? [idempotent(route.idempotency)] : [];
  const ordered = route.isIdempotencyLast ? [...limits, ...idempotents] : [...idempotents, ...limits];
  return ordered.reduceRight((handler, wrap) => wrap(handler), respond);
}

const handlers = new Map(routes.map((route) => [route, handlerOf(route)]));

function handle(request) {
  const route = routeOf(request);
  return route ? handlers.get(route)(request) : new Response("not found", { status: 404 });
}

export const dynamic = "force-dynamic";
export {
  handle as DELETE,
  handle as GET,
  handle as HEAD,
  handle as OPTIONS,
  handle as PATCH,
  handle as POST,
  handle as PUT,
};
