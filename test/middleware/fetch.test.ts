/** `sluice/fetch` on the fetch server of the current runtime. */
import { guardedRoutes, middlewareSuite } from "sluice/testing";
import { describe, it } from "vitest";
import { DENO_WITHOUT, FETCH_WITHOUT, fetchHandler, fetchKit, NODE_REQUEST_WITHOUT } from "./mount.ts";
import { serveFetch, server } from "./serve-fetch.ts";

const SERVER_WITHOUT = "Deno" in globalThis ? DENO_WITHOUT : "Bun" in globalThis ? {} : NODE_REQUEST_WITHOUT;

middlewareSuite(
  `fetch on ${server}`,
  {
    start: () => serveFetch(fetchHandler(guardedRoutes(fetchKit))),
    without: { ...FETCH_WITHOUT, ...SERVER_WITHOUT },
  },
  { describe, it },
);
