/** The routes of the suite as Netlify edge functions in Deno, called with the context that Netlify passes. */
import { getRateLimit, idempotent, rateLimit } from "sluice/netlify";
import { guardedRoutes } from "sluice/testing";

const routes = guardedRoutes({
  header: ([request], name) => request.headers.get(name) ?? undefined,
  respondWith: (_, text, status = 200) => new Response(text, { status }),
});

/** The origin that an edge function passes requests on to. */
async function origin(route, request) {
  const disconnected = new Promise((resolve) => request.signal.addEventListener("abort", resolve, { once: true }));
  const { pathname } = new URL(request.url);
  const { status, headers, body } = await route.handle(pathname, disconnected, getRateLimit(request));
  const sent = new Headers(route.before);
  for (const [name, value] of Object.entries(headers)) {
    sent.delete(name);
    for (const one of [value].flat()) sent.append(name, one);
  }
  return new Response(status === 204 || status === 304 ? null : body, { status, headers: sent });
}

const functions = new Map(
  routes.map((route) => {
    const limits = route.rateLimits.map((options) => rateLimit(options));
    const idempotents = route.idempotency ? [idempotent(route.idempotency)] : [];
    return [route, route.isIdempotencyLast ? [...limits, ...idempotents] : [...idempotents, ...limits]];
  }),
);

Deno.serve({ port: Number(Deno.env.get("PORT")), hostname: "127.0.0.1", onListen() {} }, (request, { remoteAddr }) => {
  const { pathname } = new URL(request.url);
  const route = routes.find(({ path }) => pathname === path || pathname.startsWith(`${path}/`));
  if (!route) return new Response("not found", { status: 404 });
  const chain = functions.get(route);
  const call = (i) =>
    chain[i] ? chain[i](request, { ip: remoteAddr.hostname, next: () => call(i + 1) }) : origin(route, request);
  return call(0);
});
