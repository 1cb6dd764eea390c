/** The routes of the suite. Its limiters are in memory, or on Redis if REDIS_PORT is set. */
import type { RequestEvent } from "@sveltejs/kit";
import { type GuardedRoute, guardedRoutes } from "sluice/testing";

export const routes: readonly GuardedRoute[] = guardedRoutes({
  header: ([event]: readonly [RequestEvent], name) => event.request.headers.get(name) ?? undefined,
  respondWith: (_, text, status = 200) => new Response(text, { status }),
});

export function routeOf({ url }: RequestEvent): GuardedRoute | undefined {
  return routes.find(({ path }) => url.pathname === path || url.pathname.startsWith(`${path}/`));
}
