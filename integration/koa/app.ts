/** The routes of the suite as an app of Koa 2 or 3. */
import { once } from "node:events";
import type { RequestListener } from "node:http";
import { Readable } from "node:stream";
import Koa, { type Context, type Middleware } from "koa";
// @ts-expect-error: the types are those of the package koa
import Koa2 from "koa2";
import { getRateLimit, idempotent, type KoaRateLimitOptions, rateLimit } from "sluice/koa";
import type { GuardedRoute, RouteKit, RunningServer } from "sluice/testing";
import { inOrder } from "../../test/middleware/in-order.ts";
import { listen } from "../../test/middleware/mount.ts";

type KoaClass = new () => Koa;

/** Both versions, with their names. */
export const versions: readonly (readonly [name: string, koa: KoaClass])[] = [
  ["Koa 3", Koa],
  ["Koa 2", Koa2 as KoaClass],
];

export const kit: RouteKit = {
  header: ([context]: readonly [Context], name) => context.req.headers[name] as string | undefined,
  respondWith([context]: readonly [Context], text, status = context.status) {
    context.status = status;
    return text;
  },
};

/** Parses a body as koa-bodyparser does. */
const parseBody: Middleware = async (context, next) => {
  let text = "";
  for await (const chunk of context.req) text += chunk;
  Object.assign(context.request, { body: text === "" ? {} : JSON.parse(text) });
  await next();
};

/** An app with all routes. */
export function startApp(KoaApp: KoaClass, routes: readonly GuardedRoute[]): Promise<RunningServer> {
  const app = new KoaApp();
  // Koa logs errors without a listener.
  app.on("error", () => {});
  for (const route of routes) {
    const { path, before, idempotency, rateLimits, handle } = route;
    const isBelow = (context: Context) => context.path === path || context.path.startsWith(`${path}/`);
    app.use(async (context, next) => {
      if (isBelow(context)) context.set(before as Record<string, string>);
      await next();
    });
    const limits = rateLimits.map((options) => rateLimit(options as KoaRateLimitOptions));
    const ordered = inOrder(route, idempotency ? [idempotent(idempotency)] : [], limits);
    for (const one of [...(idempotency ? [parseBody] : []), ...ordered]) {
      app.use((context, next) => (isBelow(context) ? one(context, next) : next()));
    }
    app.use(async (context, next) => {
      if (!isBelow(context)) return next();
      const { status, headers, body } = await handle(context.path, once(context.res, "close"), getRateLimit(context));
      context.status = status;
      context.set(headers as Record<string, string | string[]>);
      if (typeof body === "string") context.body = body;
      else if (body instanceof Uint8Array) context.body = Buffer.from(body);
      else context.body = Readable.fromWeb(body as never);
      context.status = status;
      context.set(headers as Record<string, string | string[]>);
    });
  }
  return listen(app.callback() as RequestListener);
}
