/** The routes of the suite as an app of NestJS, on Express or Fastify. The folder of the test determines the version. */
import "reflect-metadata";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import {
  All,
  Controller,
  type INestApplication,
  Module,
  type ModuleMetadata,
  Req,
  Res,
  SetMetadata,
  type Type,
  UseGuards,
} from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import {
  getRateLimit,
  idempotentGuard,
  type NestRateLimitOptions,
  RateLimit,
  RateLimitGuard,
  RateLimitModule,
  rateLimitGuard,
} from "sluice/nestjs";
import type { GuardedRoute, RouteKit, RunningServer } from "sluice/testing";
import { inOrder } from "../../test/middleware/in-order.ts";

/** The adapters of Nest, with their names. */
export const platforms = ["Express", "Fastify"] as const;
export type Platform = (typeof platforms)[number];

/** The methods of a response that Express and Fastify have both. */
interface PlatformResponse {
  readonly raw?: ServerResponse;
  readonly statusCode: number;
  status(status: number): PlatformResponse;
  header(name: string, value: string | string[]): PlatformResponse;
  send(body: unknown): unknown;
}

export const kit: RouteKit = {
  header: ([request]: readonly [IncomingMessage], name) => request.headers[name] as string | undefined,
  respondWith([, response]: readonly [unknown, PlatformResponse], text, status = response.statusCode) {
    response.status(status).send(text);
  },
};

/** The cases that no app of Nest can pass. */
export const without = {
  "rejects with plain text if the client prefers it": "Nest sends exceptions as JSON",
  "reads the solution of a challenge from a body, up to a size": "Nest parses bodies before guards run",
};

/** A controller with one route: its first limit is that of the decorator, further ones are guards. */
function controllerOf(route: GuardedRoute, platform: Platform): Type {
  const { path, idempotency, rateLimits, handle } = route;
  class RouteController {
    async respond(request: IncomingMessage & { originalUrl: string }, response: PlatformResponse): Promise<void> {
      const closed = once(response.raw ?? (response as unknown as ServerResponse), "close");
      const { pathname } = new URL(request.originalUrl, "http://localhost");
      const { status, headers, body } = await handle(pathname, closed, getRateLimit(request));
      response.status(status);
      for (const [name, value] of Object.entries(headers)) response.header(name, value as string | string[]);
      if (typeof body === "string") response.send(body);
      else if (body instanceof Uint8Array) response.send(Buffer.from(body));
      else if (platform === "Fastify") response.send(Readable.fromWeb(body as never));
      else Readable.fromWeb(body as never).pipe(response as never);
    }
  }
  const limits = rateLimits as readonly NestRateLimitOptions[];
  // The guard of the decorator is one of the app, which run before those of handlers.
  const [first, ...others] = idempotency ? [undefined, ...limits] : limits;
  const limitGuards = others.map((options) => rateLimitGuard(options as NestRateLimitOptions));
  const guards = inOrder(route, idempotency ? [idempotentGuard(idempotency)] : [], limitGuards);
  const { prototype } = RouteController;
  const method = Object.getOwnPropertyDescriptor(prototype, "respond") as PropertyDescriptor;
  Req()(prototype, "respond", 0);
  Res()(prototype, "respond", 1);
  All([path, platform === "Fastify" ? `${path}/*` : `${path}/*rest`])(prototype, "respond", method);
  if (first) RateLimit(first)(prototype, "respond", method);
  else SetMetadata("none", true)(prototype, "respond", method);
  if (guards.length > 0) UseGuards(...guards)(prototype, "respond", method);
  Controller()(RouteController);
  return RouteController;
}

export function startApp(platform: Platform, routes: readonly GuardedRoute[]): Promise<RunningServer> {
  const metadata: ModuleMetadata = {
    imports: [RateLimitModule.forRoot({ global: false })],
    controllers: routes.map((route) => controllerOf(route, platform)),
    providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
  };
  const setBefore = (
    { originalUrl }: { originalUrl: string },
    response: Pick<PlatformResponse, "header">,
    next: () => void,
  ): void => {
    const { pathname } = new URL(originalUrl, "http://localhost");
    const route = routes.find(({ path }) => pathname === path || pathname.startsWith(`${path}/`));
    for (const [name, value] of Object.entries(route?.before ?? {})) response.header(name, value);
    next();
  };
  return served(platform, metadata, (app) => {
    if (platform === "Express") app.use(setBefore);
    else app.getHttpAdapter().getInstance().addHook("onRequest", setBefore);
  });
}

/** Starts an app on a free loopback port. */
export async function served(
  platform: Platform,
  metadata: ModuleMetadata,
  prepare: (app: INestApplication) => void = () => {},
): Promise<RunningServer & { app: INestApplication }> {
  class AppModule {}
  Module(metadata)(AppModule);
  const adapter = platform === "Express" ? new ExpressAdapter() : new FastifyAdapter();
  const app = await NestFactory.create(AppModule, adapter as ExpressAdapter, { logger: false, abortOnError: false });
  prepare(app);
  await app.listen(0, "127.0.0.1");
  const { port } = app.getHttpServer().address() as { port: number };
  return {
    app,
    url: `http://127.0.0.1:${port}/`,
    async close() {
      app.getHttpServer().closeAllConnections();
      await app.close();
    },
  };
}
