/** One topology with every client: the whole kit, and what it cannot ask. */
import { redisRateLimiter, redisStore } from "sluice/redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { beyondKit } from "./beyond-kit.ts";
import { clients } from "./clients.ts";
import { kit } from "./kit.ts";
import { sockets } from "./sockets.ts";
import { type Servers, type Topology, topologies } from "./topologies.ts";

export function certify(topology: Topology): void {
  let servers: Servers;
  beforeAll(async () => {
    servers = await topologies[topology]();
  });
  afterAll(() => servers?.stop());

  for (const [name, openers] of Object.entries(clients)) {
    const open = openers[topology];
    describe(name, () => {
      if (!open) return it(`has no client for ${topology}`, () => expect(open).toBeUndefined());
      const kind = { open: () => open(servers), storeOn: redisStore, limiterOn: redisRateLimiter };
      kit(`${name}, ${topology}`, kind);
      beyondKit(kind, () => servers);
      sockets(open, () => servers);
    });
  }
}
