/** `sluice/nestjs` in real apps of NestJS 12, on Express and Fastify. */
import { serverSuite } from "../server-suite.ts";
import { kit, platforms, startApp, without } from "./app.ts";
import { beyondTheSuite } from "./beyond.ts";

for (const platform of platforms) {
  const name = `NestJS 12 on ${platform}`;
  serverSuite(name, { kit, start: (routes) => startApp(platform, routes), without });
  beyondTheSuite(name, platform);
}
