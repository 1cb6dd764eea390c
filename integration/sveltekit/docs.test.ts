/** The app of docs/middleware/sveltekit.md, built with adapter-node. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { build, installPacked, node24, startServer } from "../built-app.ts";
import { expectResults } from "../docs-page.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const site = join(here, "site");

it("responds as the page says, and counts neither prerendered pages nor calls of its own routes", async () => {
  installPacked(here);
  await build(node24, ["../node_modules/vite/bin/vite.js", "build"], site);
  const server = await startServer(node24, ["build/index.js"], site);
  onTestFinished(server.close);
  for (let i = 0; i < 10; i++) {
    const about = await fetch(new URL("/about", server.url));
    expect([about.status, about.headers.get("RateLimit")]).toEqual([200, null]);
  }
  const page = await fetch(server.url);
  expect(page.headers.get("RateLimit")).toMatch(/^"site";r=4/);
  expect((await page.text()).replace(/<!--.*?-->/g, "")).toContain("remaining: 4");
  const whole = await fetch(new URL("/whole", server.url));
  expect([await whole.text(), whole.headers.get("RateLimit")]).toEqual(["part", expect.stringMatching(/^"site";r=3/)]);
  await server.close();

  const fresh = await startServer(node24, ["build/index.js"], site);
  onTestFinished(fresh.close);
  await expectResults("docs/middleware/sveltekit.md", fresh.url);
});
