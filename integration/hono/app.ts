/** The routes of the suite as a Hono app. It imports nothing from Node, so it runs on Workers as well. */
import { type Context, Hono } from "hono";
import type { StatusCode } from "hono/utils/http-status";
import { getRateLimit, type HonoRateLimitOptions, idempotent, rateLimit } from "sluice/hono";
import type { GuardedRoute, RouteKit } from "sluice/testing";
import { inOrder } from "../../test/middleware/in-order.ts";

export const kit: RouteKit = {
  header: ([context]: readonly [Context], name) => context.req.header(name),
  respondWith: ([context]: readonly [Context], text, status = 200) => context.text(text, status as 200),
};

export function honoApp(routes: readonly GuardedRoute[]): Hono {
  const app = new Hono();
  for (const route of routes) {
    const { path, before, idempotency, rateLimits, handle } = route;
    // Matches the path itself as well as the paths below it.
    app.use(`${path}/*`, async (context, next) => {
      for (const [name, value] of Object.entries(before)) context.header(name, value);
      await next();
    });
    const limits = rateLimits.map((options) => rateLimit(options as HonoRateLimitOptions));
    for (const one of inOrder(route, idempotency ? [idempotent(idempotency)] : [], limits)) app.use(`${path}/*`, one);
    app.all(`${path}/*`, async (context) => {
      const { signal } = context.req.raw;
      const disconnected = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      const { status, headers, body } = await handle(context.req.path, disconnected, getRateLimit(context));
      const empty = status === 204 || status === 304;
      return context.newResponse(
        empty ? null : (body as string),
        status as StatusCode,
        headers as Record<string, string | string[]>,
      );
    });
  }
  // Hono logs errors without a handler.
  app.onError((_error, context) => context.text("Internal Server Error", 500));
  return app;
}
