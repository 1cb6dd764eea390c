/** The routes of the suite as one resource route, whose middleware is that of the requested path. */
import type { MiddlewareFunction } from "react-router";
import {
  getRateLimit,
  idempotent,
  type ReactRouterArgs,
  type ReactRouterRateLimitOptions,
  rateLimit,
} from "sluice/react-router";
import { type GuardedRoute, guardedRoutes } from "sluice/testing";

const routes = guardedRoutes({
  header: ([{ request }]: ReactRouterArgs, name) => request.headers.get(name) ?? undefined,
  respondWith: (_, text, status = 200) => new Response(text, { status }),
  // React Router passes no socket address. The proxy in front of this app sets X-Real-IP.
  identity: { preset: "nginx", trustedProxies: 1 },
});
const limits = new Map(
  routes.map((route) => {
    const own = route.rateLimits.map((options) => rateLimit(options as ReactRouterRateLimitOptions));
    const idempotents = route.idempotency ? [idempotent(route.idempotency)] : [];
    return [route, route.isIdempotencyLast ? [...own, ...idempotents] : [...idempotents, ...own]];
  }),
);

function routeOf(request: Request): GuardedRoute | undefined {
  const { pathname } = new URL(request.url);
  return routes.find(({ path }) => pathname === path || pathname.startsWith(`${path}/`));
}

export const middleware: MiddlewareFunction<Response>[] = [
  (args, next) => {
    const chain = limits.get(routeOf(args.request) as GuardedRoute) ?? [];
    const call = (i: number): Promise<Response> => {
      const limit = chain[i];
      return Promise.resolve(limit ? limit(args, () => call(i + 1)) : next()) as Promise<Response>;
    };
    return call(0);
  },
];

async function respond(args: ReactRouterArgs[0]): Promise<Response> {
  const { request } = args;
  const route = routeOf(request);
  if (!route) return new Response("not found", { status: 404 });
  const { signal } = request;
  const disconnected = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  const { status, headers, body } = await route.handle(new URL(request.url).pathname, disconnected, getRateLimit(args));
  const sent = new Headers(route.before as Record<string, string>);
  for (const [name, value] of Object.entries(headers)) {
    sent.delete(name);
    for (const one of [value].flat()) sent.append(name, one);
  }
  return new Response(status === 204 || status === 304 ? null : (body as BodyInit), { status, headers: sent });
}

export const loader = respond;
export const action = respond;
