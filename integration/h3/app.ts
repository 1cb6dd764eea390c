/** The routes of the suite as an app of h3 2. It imports nothing from Node. */
import { H3, type H3Event } from "h3";
import { getRateLimit, type H3RateLimitOptions, idempotent, rateLimit } from "sluice/h3";
import type { GuardedRoute, RouteKit } from "sluice/testing";
import { inOrder } from "../../test/middleware/in-order.ts";

export const kit: RouteKit = {
  header: ([event]: readonly [H3Event], name) => event.req.headers.get(name) ?? undefined,
  respondWith: (_, text, status = 200) => new Response(text, { status }),
};

export function h3App(routes: readonly GuardedRoute[]): H3 {
  const app = new H3({ silent: true });
  for (const guarded of routes) {
    const { path, before, idempotency, rateLimits, handle } = guarded;
    for (const route of [path, `${path}/**`]) {
      app.use(route, (event) => {
        for (const [name, value] of Object.entries(before)) event.res.headers.set(name, value as string);
      });
    }
    const limits = rateLimits.map((options) => rateLimit(options as H3RateLimitOptions));
    for (const one of inOrder(guarded, idempotency ? [idempotent(idempotency)] : [], limits)) {
      app.use((event, next) => (isBelow(event, path) ? one(event, next) : next()));
    }
    app.use(async (event, next) => {
      if (!isBelow(event, path)) return next();
      const { signal } = event.req;
      const disconnected = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      const { status, headers, body } = await handle(event.url.pathname, disconnected, getRateLimit(event));
      const sent = new Headers();
      for (const [name, value] of Object.entries(headers)) for (const one of [value].flat()) sent.append(name, one);
      return new Response(status === 204 || status === 304 ? null : (body as BodyInit), { status, headers: sent });
    });
  }
  return app;
}

function isBelow({ url }: H3Event, path: string): boolean {
  return url.pathname === path || url.pathname.startsWith(`${path}/`);
}
