/** `sluice/nestjs` in real apps of NestJS 12, on Express and Fastify. */
import { serverSuite } from "../server-suite.ts";
import { kit, platforms, startApp } from "./app.ts";

for (const platform of platforms) {
  serverSuite(`NestJS 12 on ${platform}`, { kit, start: (routes) => startApp(platform, routes) });
}
