/** `sluice/fetch` on the fetch server of the current runtime. */
import { guardedRoutes, middlewareSuite } from "sluice/testing";
import { describe, it } from "vitest";
import { FETCH_WITHOUT, fetchHandler, fetchKit } from "./mount.ts";
import { serveFetch, server } from "./serve-fetch.ts";

middlewareSuite(
  `fetch on ${server}`,
  { start: () => serveFetch(fetchHandler(guardedRoutes(fetchKit))), without: FETCH_WITHOUT },
  { describe, it },
);
