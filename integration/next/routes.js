/** The routes of the suite, once per process: Next.js bundles proxy.js and route handlers apart. */
import { guardedRoutes } from "sluice/testing";

/** @typedef {import("sluice/testing").GuardedRoute} GuardedRoute */

/** @type {readonly GuardedRoute[]} */
export const routes = (globalThis.suiteRoutes ??= guardedRoutes({
  header: ([request], name) => request.headers.get(name) ?? undefined,
  respondWith: (_, text, status = 200) => new Response(text, { status }),
  // Next.js passes no socket address. The proxy in front of this app sets X-Real-IP.
  identity: { preset: "nginx", trustedProxies: 1 },
}));

export function routeOf(request) {
  const { pathname } = new URL(request.url);
  return routes.find(({ path }) => pathname === path || pathname.startsWith(`${path}/`));
}
