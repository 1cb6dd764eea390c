/** The app of docs/middleware/next.md, built by Next.js 16 and served behind a reverse proxy. */
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { build, installPacked, node24, startDevServer, startServer } from "../built-app.ts";
import { expectResults } from "../docs-page.ts";
import { asAddress, withFrontProxy } from "../front-proxy.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const NEXT = "node_modules/next/dist/bin/next";
const env = { NEXT_TELEMETRY_DISABLED: "1" };

/** Submits the form of the page three times, and returns the results of its Server Action that the page shows. */
async function submit(url: string, headers: Record<string, string> = {}): Promise<unknown[]> {
  const form = await fetch(url, { headers });
  const fields = [...(await form.text()).matchAll(/<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?/g)];
  const results = [];
  for (let i = 0; i < 3; i++) {
    const body = new FormData();
    for (const [, name = "", value = ""] of fields) body.set(name, value.replaceAll("&quot;", '"'));
    body.set("text", "hello");
    const response = await fetch(url, { method: "POST", body, headers });
    results.push(/<p>(.*?)<\/p>/.exec(await response.text())?.[1]);
  }
  return results;
}

it("responds as the page says, and limits the Server Action per client", async () => {
  installPacked(here);
  await build(node24, [NEXT, "build", "docs"], here, env);
  const args = [NEXT, "start", "docs", "-H", "127.0.0.1", "-p", "$PORT"];
  const app = await startServer(node24, args, here, env);
  const { url, close } = await withFrontProxy(app);
  onTestFinished(close);
  await expectResults("docs/middleware/next.md", url);
  expect(await submit(url, asAddress("203.0.113.9"))).toEqual(["Sent: hello", "Sent: hello", "Try again later."]);
  // Without the proxy in front, a client could choose its address.
  expect((await fetch(app.url)).status).toBe(500);
});

it("limits all requests together in development, where no proxy is in front", async () => {
  installPacked(here);
  const args = [NEXT, "dev", "docs", "-H", "127.0.0.1", "-p", "$PORT"];
  const { url, close } = await startDevServer(node24, args, here, env);
  onTestFinished(close);
  expect(await submit(url)).toEqual(["Sent: hello", "Sent: hello", "Try again later."]);
  const statuses = [await fetch(new URL("api/codes", url), { method: "POST" }), await fetch(url)].map(
    (one) => one.status,
  );
  expect(statuses).toEqual([202, 429]);
});
