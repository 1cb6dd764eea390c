/** `sluice/hono` on the fetch server of the current runtime. */
import { guardedRoutes, middlewareSuite } from "sluice/testing";
import { describe, it } from "vitest";
import { honoApp, kit } from "../../integration/hono/app.ts";
import { DENO_WITHOUT } from "./mount.ts";
import { serveFetch, server } from "./serve-fetch.ts";

middlewareSuite(
  `Hono on ${server}`,
  {
    start() {
      const app = honoApp(guardedRoutes(kit));
      return serveFetch((request, environment) => app.fetch(request, environment as object));
    },
    without: "Deno" in globalThis ? DENO_WITHOUT : {},
  },
  { describe, it },
);
