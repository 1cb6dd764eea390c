/** Runs all suites on one topology with every client. */
import { redisRateLimiter, redisStore } from "sluice/redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { clients } from "./clients.ts";
import { connectionTests } from "./connection-tests.ts";
import { contractSuites } from "./contract-suites.ts";
import { serverTests } from "./server-tests.ts";
import { type Servers, type Topology, topologies } from "./topologies.ts";

export function testTopology(topology: Topology): void {
  let servers: Servers;
  beforeAll(async () => {
    servers = await topologies[topology]();
  });
  afterAll(() => servers?.stop());

  for (const [name, openers] of Object.entries(clients)) {
    const open = openers[topology];
    describe(name, () => {
      if (!open) return it(`has no client for ${topology}`, () => expect(open).toBeUndefined());
      const kind = { open: () => open(servers), createStore: redisStore, createLimiter: redisRateLimiter };
      contractSuites(`${name}, ${topology}`, kind);
      serverTests(kind, () => servers);
      connectionTests(open, () => servers);
    });
  }
}
