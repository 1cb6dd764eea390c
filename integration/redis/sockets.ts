/** What is asked of clients that hold connections: before they are open, after they broke, and when they are closed. */
import { setTimeout as sleep } from "node:timers/promises";
import { redisStore } from "sluice/redis";
import { describe, expect, it, onTestFinished } from "vitest";
import { limiterOn, policyOf } from "./beyond-kit.ts";
import type { ClientOptions, Open } from "./clients.ts";
import { connected } from "./kind.ts";
import { type Place, proxied, type Servers } from "./topologies.ts";

export function sockets(open: Open, servers: () => Servers): void {
  const storeOn = async (place: Place, options?: ClientOptions) =>
    redisStore(await connected({ open: () => open(place, options) }, onTestFinished));

  describe("connections", () => {
    it("a call waits for a client that is connecting, and fails at once on one that is closed", async () => {
      const { client, ready, close } = open(servers());
      const limiter = limiterOn(redisStore(client), policyOf(2));
      const [first] = await Promise.allSettled([limiter.consume("k"), ready]);
      expect(first).toMatchObject({ status: "fulfilled", value: { remaining: 1 } });
      await close();
      const start = performance.now();
      await expect(limiter.consume("k")).rejects.toMatchObject({ code: "store-unavailable" });
      expect(performance.now() - start).toBeLessThan(1000);
    });

    it("inspect tells the key as it is stored, also where the client has a prefix of its own", async () => {
      const store = await storeOn(servers(), { keyPrefix: "app:" });
      const policy = policyOf(2);
      const limiter = limiterOn(store, policy);
      await limiter.consume("k");
      const stored = (await servers().callAll("KEYS", `*${policy.name}`)).flat();
      expect(stored).toEqual([(await limiter.inspect("k")).storedKey]);
    });

    it.each([
      ["with all defaults", {}],
      ["that is told to send nothing again", { autoResendUnfulfilledCommands: false }],
    ])("a client %s charges once when a reply is lost, or the limiter warns of it", async (_, options) => {
      const { place, set, stop } = await proxied(servers());
      onTestFinished(async () => void (await stop()));
      const policy = policyOf(10);
      const warnings: string[] = [];
      const limiter = limiterOn(await storeOn(place, options), policy, {
        deadlineMs: "1s",
        onEvent: (event) => event.type === "warning" && warnings.push(event.message),
      });
      const witness = limiterOn(await storeOn(servers()), policy);
      await limiter.consume("k");
      set("drop-replies");
      const lost = limiter.consume("k").catch(() => {});
      while ((await witness.peek("k")).remaining === 9);
      // It is charged, and its reply is on its way into the void. After that the connections break.
      await sleep(50);
      set("pass");
      await lost;
      await sleep(500);
      const charged = 9 - (await witness.peek("k")).remaining;
      expect({ charged, warned: warnings.length > 0 }).not.toEqual({ charged: 2, warned: false });
    });
  });
}
