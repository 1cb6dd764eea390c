/** The app of docs/middleware/koa.md, with the packed package on Node 24. */
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { installPacked, node24, startServer } from "../built-app.ts";
import { expectResults } from "../docs-page.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

it("responds as the page says", async () => {
  installPacked(here);
  const server = await startServer(node24, ["docs-app.ts"], here);
  onTestFinished(server.close);
  await expectResults("docs/middleware/koa.md", server.url);
  expect(await (await fetch(new URL("/health", server.url))).text()).toBe("ok\n");
});
