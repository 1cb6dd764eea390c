/** `sluice/node` on a real server of this runtime. */
import { guardedRoutes, middlewareSuite } from "sluice/testing";
import { describe, it } from "vitest";
import { listen, nodeKit, nodeListener } from "./mount.ts";

middlewareSuite("node:http", { start: () => listen(nodeListener(guardedRoutes(nodeKit))) }, { describe, it });
