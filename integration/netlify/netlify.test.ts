/** `sluice/netlify` in Deno 2.8, which Netlify's tools run, and in Deno 2.9. */
import { fileURLToPath } from "node:url";
import { middlewareSuite } from "sluice/testing";
import { beforeAll, describe, it } from "vitest";
import { DENO_WITHOUT, FETCH_WITHOUT } from "../../test/middleware/mount.ts";
import { installPacked, startServer } from "../built-app.ts";
import { denos, RUN } from "./deno.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

beforeAll(() => installPacked(here));

for (const [name, deno] of Object.entries(denos)) {
  middlewareSuite(
    `Netlify edge functions in ${name}, memory`,
    {
      start: () => startServer(deno, [...RUN, "serve.js"], here),
      without: { ...FETCH_WITHOUT, ...DENO_WITHOUT },
    },
    { describe, it },
  );
}
