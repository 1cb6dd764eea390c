/** `sluice/node` on a real `node:http` server. */
import { guardedRoutes, middlewareSuite } from "sluice/testing";
import { describe, it } from "vitest";
import { listen, nodeKit, nodeListener } from "./mount.ts";

middlewareSuite("node:http", { start: () => listen(nodeListener(guardedRoutes(nodeKit))) }, { describe, it });
