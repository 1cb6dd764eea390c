/** The tests of a Worker in docs/guide/test-rate-limits.md, run with the Vitest plugin of Cloudflare. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { snippetsOfKind } from "../../test/snippets.ts";
import { build, installPacked, node24 } from "../built-app.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const PAGE = "docs/guide/test-rate-limits.md";
/** The first line of a block says which file it is. */
const FILE = /^\/\/ ([\w./]+)/;

it("passes with the configuration of the page, and fails for another limit", async () => {
  installPacked(here);
  // Inside of this folder, so that the packages are found.
  const folder = join(here, ".cache/app");
  onTestFinished(() => rmSync(join(here, ".cache"), { recursive: true, force: true }));
  cpSync(join(here, "app"), folder, { recursive: true });
  const files = snippetsOfKind("before").filter(({ page }) => page === PAGE);
  const names = files.map(({ lines }) => {
    const text = lines.join("\n").trim();
    const name = FILE.exec(text)?.[1] as string;
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
    return name;
  });
  expect(names).toEqual(["vitest.config.js", "test/limits.test.js"]);

  const vitest = join(here, "node_modules/vitest/vitest.mjs");
  const env = { NODE_ENV: "test", WRANGLER_SEND_METRICS: "false", CLOUDFLARE_CF_FETCH_ENABLED: "false" };
  const run = () => build(node24, [vitest, "run"], folder, env);
  await run();
  const worker = join(folder, "worker.js");
  writeFileSync(worker, readFileSync(worker, "utf8").replace('"2/m"', '"3/m"'));
  await expect(run()).rejects.toThrow(/rejects the third request of a minute/);
});
