/** `sluice/sveltekit` in a built app of SvelteKit 2, which is that of SvelteKit 3. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { middlewareSuite } from "sluice/testing";
import { beforeAll, describe, it } from "vitest";
import { FETCH_WITHOUT, NODE_REQUEST_WITHOUT } from "../../test/middleware/mount.ts";
import { build, installPacked, node24, startServer } from "../built-app.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

beforeAll(async () => {
  cpSync(fileURLToPath(new URL("../sveltekit/src", import.meta.url)), `${here}src`, { recursive: true });
  // SvelteKit 2 has the type of hooks in another module.
  const hooks = `${here}src/hooks.server.ts`;
  const text = readFileSync(hooks, "utf8");
  const moved = 'import type { Handle } from "@sveltejs/kit";\nimport { sequence } from "@sveltejs/kit/hooks";';
  writeFileSync(hooks, text.replace('import { type Handle, sequence } from "@sveltejs/kit/hooks";', moved));
  installPacked(here);
  await build(node24, ["node_modules/vite/bin/vite.js", "build"], here);
});

middlewareSuite(
  "SvelteKit 2, memory",
  {
    start: () => startServer(node24, ["build/index.js"], here),
    without: {
      ...FETCH_WITHOUT,
      ...NODE_REQUEST_WITHOUT,
      "stores the response to a client that has disconnected, for its retry":
        "SvelteKit 2 does not abort the signal of a request whose body was read",
    },
  },
  { describe, it },
);
