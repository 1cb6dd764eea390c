/** The apps of docs/middleware/h3.md, with the packed package on Node 24. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createApp, defineEventHandler, type EventHandler, toNodeListener } from "h3v1";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { build, installPacked, node24, startServer } from "../built-app.ts";
import { expectResults } from "../docs-page.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

beforeAll(() => installPacked(here));

async function statusesOf(url: string, requests: number): Promise<number[]> {
  const statuses = [];
  for (let i = 0; i < requests; i++) statuses.push((await fetch(url)).status);
  return statuses;
}

it("responds as the page says", async () => {
  const server = await startServer(node24, ["docs-app.ts"], here);
  onTestFinished(server.close);
  await expectResults("docs/middleware/h3.md", server.url);
  expect(await (await fetch(new URL("/health", server.url))).text()).toBe("ok\n");
});

it("limits the routes of a built Nitro app", async () => {
  const site = join(here, "nitro");
  await build(node24, ["../node_modules/nitro/dist/cli/index.mjs", "build"], site);
  const server = await startServer(node24, [".output/server/index.mjs"], site);
  onTestFinished(server.close);
  const first = await fetch(server.url);
  expect([first.headers.get("RateLimit-Policy"), await first.json()]).toEqual(['"api";q=3;w=3600', { remaining: 2 }]);
  expect(await statusesOf(server.url, 3)).toEqual([200, 200, 429]);
});

it("limits the routes of h3 1, which Nuxt 4 is built on", async () => {
  const cache = join(here, "node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  const file = join(cache, "nuxt-limit.ts");
  // Here the package of h3 1 has another name.
  const code = readFileSync(join(here, "nuxt/server/middleware/limit.ts"), "utf8");
  writeFileSync(file, code.replace('from "h3"', 'from "h3v1"'));
  const { default: limit } = (await import(file)) as { default: EventHandler };
  const app = createApp();
  app.use(limit);
  app.use(defineEventHandler(() => "hello"));
  const server = await listen(toNodeListener(app));
  onTestFinished(server.close);
  expect(await statusesOf(server.url, 4)).toEqual([200, 200, 200, 429]);
});
