/** The app of docs/middleware/next.md, built by Next.js 16 and served behind a reverse proxy. */
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { build, installPacked, node24, startServer } from "../built-app.ts";
import { expectResults } from "../docs-page.ts";
import { asAddress, withFrontProxy } from "../front-proxy.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const NEXT = "node_modules/next/dist/bin/next";
const env = { NEXT_TELEMETRY_DISABLED: "1" };

it("responds as the page says, and limits the Server Action per client", async () => {
  installPacked(here);
  await build(node24, [NEXT, "build", "docs"], here, env);
  const args = [NEXT, "start", "docs", "-H", "127.0.0.1", "-p", "$PORT"];
  const { url, close } = await withFrontProxy(await startServer(node24, args, here, env));
  onTestFinished(close);
  await expectResults("docs/middleware/next.md", url);

  const form = await fetch(url, { headers: asAddress("203.0.113.9") });
  const fields = [...(await form.text()).matchAll(/<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?/g)];
  const submit = async () => {
    const body = new FormData();
    for (const [, name = "", value = ""] of fields) body.set(name, value.replaceAll("&quot;", '"'));
    body.set("text", "hello");
    const response = await fetch(url, { method: "POST", body, headers: asAddress("203.0.113.9") });
    return /<p>(.*?)<\/p>/.exec(await response.text())?.[1];
  };
  expect([await submit(), await submit(), await submit()]).toEqual(["Sent: hello", "Sent: hello", "Try again later."]);
});
