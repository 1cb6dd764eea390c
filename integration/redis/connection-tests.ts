/** Tests of clients with sockets: while they connect, after a connection broke, and after they are closed. */
import { setTimeout as sleep } from "node:timers/promises";
import { redisStore } from "sluice/redis";
import { describe, expect, it, onTestFinished } from "vitest";
import { openClient } from "./client-kind.ts";
import type { ClientOptions, Open } from "./clients.ts";
import { limiterFor, uniquePolicy } from "./server-tests.ts";
import { behindProxies, type ServerAddresses, type Servers } from "./topologies.ts";

export function connectionTests(open: Open, servers: () => Servers): void {
  const openStore = async (addresses: ServerAddresses, options?: ClientOptions) =>
    redisStore(await openClient({ open: () => open(addresses, options) }, onTestFinished));

  describe("a connection", () => {
    it("delays calls while it opens, and fails them at once after it is closed", async () => {
      const { client, ready, close } = open(servers());
      const limiter = limiterFor(redisStore(client), uniquePolicy(2));
      const [first] = await Promise.allSettled([limiter.consume("k"), ready]);
      expect(first).toMatchObject({ status: "fulfilled", value: { remaining: 1 } });
      await close();
      const start = performance.now();
      await expect(limiter.consume("k")).rejects.toMatchObject({ code: "store-unavailable" });
      expect(performance.now() - start).toBeLessThan(1000);
    });

    it("may have a key prefix, which inspect() includes in storedKey", async () => {
      const store = await openStore(servers(), { keyPrefix: "app:" });
      const policy = uniquePolicy(2);
      const limiter = limiterFor(store, policy);
      await limiter.consume("k");
      const stored = (await servers().callAll("KEYS", `*${policy.name}`)).flat();
      expect(stored).toEqual([(await limiter.inspect("k")).storedKey]);
    });

    it.each([
      ["with all defaults", {}],
      ["without resending", { autoResendUnfulfilledCommands: false }],
    ])("%s charges once after a lost reply, or the limiter warns", async (_, options) => {
      const { addresses, setMode, stop } = await behindProxies(servers());
      onTestFinished(async () => void (await stop()));
      const policy = uniquePolicy(10);
      const warnings: string[] = [];
      const limiter = limiterFor(await openStore(addresses, options), policy, {
        deadlineMs: "1s",
        onEvent: (event) => event.type === "warning" && warnings.push(event.message),
      });
      const witness = limiterFor(await openStore(servers()), policy);
      await limiter.consume("k");
      setMode("drop-replies");
      const lost = limiter.consume("k").catch(() => {});
      while ((await witness.peek("k")).remaining === 9);
      // The call is charged and its reply is dropped. Then the connections break.
      await sleep(50);
      setMode("pass");
      await lost;
      await sleep(500);
      const charged = 9 - (await witness.peek("k")).remaining;
      expect({ charged, warned: warnings.length > 0 }).not.toEqual({ charged: 2, warned: false });
    });
  });
}
