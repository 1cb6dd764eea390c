/** `sluice/nestjs` in real apps of NestJS 11, on Express and Fastify. The apps are those of NestJS 12. */
import { kit, platforms, startApp, without } from "../nestjs/app.ts";
import { beyondTheSuite } from "../nestjs/beyond.ts";
import { serverSuite } from "../server-suite.ts";

for (const platform of platforms) {
  const name = `NestJS 11 on ${platform}`;
  serverSuite(name, { kit, start: (routes) => startApp(platform, routes), without });
  beyondTheSuite(name, platform);
}
