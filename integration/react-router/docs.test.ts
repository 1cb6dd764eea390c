/** The app of docs/middleware/react-router.md, built and served by react-router-serve behind a reverse proxy. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { build, installPacked, node24, startServer } from "../built-app.ts";
import { expectResults } from "../docs-page.ts";
import { asAddress, withFrontProxy } from "../front-proxy.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const site = join(here, "site");

it("responds as the page says, per client", async () => {
  installPacked(here);
  await build(node24, ["../node_modules/@react-router/dev/bin.cjs", "build"], site);
  const args = ["../node_modules/@react-router/serve/bin.cjs", "build/server/index.js"];
  const { url, close } = await withFrontProxy(await startServer(node24, args, site));
  onTestFinished(close);
  await expectResults("docs/middleware/react-router.md", url);
  const other = await fetch(url, { headers: asAddress("203.0.113.9") });
  expect((await other.text()).replace(/<!--.*?-->/g, "")).toContain("remaining: 4");
});
