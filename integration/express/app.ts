/** The routes of the suite as an app of Express 4 or 5. */
import { once } from "node:events";
import type { IncomingMessage, RequestListener } from "node:http";
import { Readable } from "node:stream";
import express4 from "express4";
import express5, { type Response } from "express5";
import { type ExpressRateLimitOptions, getRateLimit, idempotent, rateLimit } from "sluice/express";
import type { GuardedRoute, RouteKit, RunningServer } from "sluice/testing";
import { inOrder } from "../../test/middleware/in-order.ts";
import { listen } from "../../test/middleware/mount.ts";

export type Express = typeof express5;

/** Both versions, with their names. */
export const versions: readonly (readonly [name: string, express: Express])[] = [
  ["Express 5", express5],
  ["Express 4", express4 as unknown as Express],
];

export const kit: RouteKit = {
  header: ([request]: readonly [IncomingMessage], name) => request.headers[name] as string | undefined,
  respondWith([, response]: readonly [IncomingMessage, Response], text, status = response.statusCode) {
    return response.status(status).send(text);
  },
};

/** An app with all routes, each mounted with `app.use`. */
export function startApp(express: Express, routes: readonly GuardedRoute[]): Promise<RunningServer> {
  const app = express();
  // Express sends the stack of an error in other environments.
  app.set("env", "production");
  for (const route of routes) {
    const { path, before, idempotency, rateLimits, handle } = route;
    const limits = rateLimits.map((options) => rateLimit(options as ExpressRateLimitOptions));
    app.use(
      path,
      (_request, response, next) => {
        response.set(before);
        next();
      },
      ...(idempotency ? [express.json()] : []),
      ...inOrder(route, idempotency ? [idempotent(idempotency)] : [], limits),
      (request, response, next) => {
        // Express 4 does not catch rejections.
        const respond = async () => {
          const { status, headers, body } = await handle(
            request.baseUrl + request.path,
            once(response, "close"),
            getRateLimit(request),
          );
          response.status(status).set(headers);
          if (typeof body === "string") response.send(body);
          else if (body instanceof Uint8Array) response.send(Buffer.from(body));
          else Readable.fromWeb(body as never).pipe(response);
        };
        respond().catch(next);
      },
    );
  }
  return listen(app as RequestListener);
}
