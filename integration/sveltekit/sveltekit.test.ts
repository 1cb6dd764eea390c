/** `sluice/sveltekit` in a built app of SvelteKit 3 with adapter-node. */
import { fileURLToPath } from "node:url";
import { middlewareSuite } from "sluice/testing";
import { beforeAll, describe, it } from "vitest";
import { FETCH_WITHOUT } from "../../test/middleware/mount.ts";
import { build, installPacked, node24, startServer } from "../built-app.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

beforeAll(async () => {
  installPacked(here);
  await build(node24, ["node_modules/vite/bin/vite.js", "build"], here);
});

middlewareSuite(
  "SvelteKit 3, memory",
  { start: () => startServer(node24, ["build/index.js"], here), without: FETCH_WITHOUT },
  { describe, it },
);
