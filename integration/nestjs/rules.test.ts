/** Rules in real apps of NestJS 12 on Express and Fastify: unusual spellings of paths. */
import type { IncomingMessage } from "node:http";
import { Controller, Get, Req, Res, type Type } from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import { RateLimitGuard, RateLimitModule } from "sluice/nestjs";
import { type RouteName, RULE_ROUTES, responseHeaders, ruleSpellings } from "../rule-spellings.ts";
import { platforms, served } from "./app.ts";

/** The methods of a response that Express and Fastify have both. */
interface PlatformResponse {
  header(name: string, value: string): PlatformResponse;
  send(body: string): unknown;
}

/** A controller that reports its name and the target that the guard has seen. */
function controllerOf(name: RouteName, path: string): Type {
  class RouteController {
    respond(request: IncomingMessage & { originalUrl: string }, response: PlatformResponse): void {
      const headers = responseHeaders(name, request.originalUrl);
      for (const [field, value] of Object.entries(headers)) response.header(field, value);
      response.send("ok");
    }
  }
  const { prototype } = RouteController;
  Req()(prototype, "respond", 0);
  Res()(prototype, "respond", 1);
  Get(path)(prototype, "respond", Object.getOwnPropertyDescriptor(prototype, "respond") as PropertyDescriptor);
  Controller()(RouteController);
  return RouteController;
}

for (const platform of platforms) {
  ruleSpellings(`NestJS 12 on ${platform}`, (options) =>
    served(platform, {
      imports: [RateLimitModule.forRoot(options)],
      providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
      controllers: RULE_ROUTES.map(([name, path]) =>
        controllerOf(name, platform === "Fastify" ? path : path.replace("/*", "/*rest")),
      ),
    }),
  );
}
