/** The idempotency store with every client on every topology, and with Upstash. */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis, type RedisConfigNodejs } from "@upstash/redis";
import type { IdempotencyStore } from "sluice/idempotency";
import { redisIdempotencyStore } from "sluice/redis";
import { idempotencySuite } from "sluice/testing";
import { upstashIdempotencyStore } from "sluice/upstash";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startUpstashBridge, type UpstashBridge } from "../../test/servers/upstash-bridge.js";
import { openClient } from "./client-kind.ts";
import { clients, type Open } from "./clients.ts";
import { behindProxies, type Servers, type Topology, topologies } from "./topologies.ts";

const runner = { describe, it };
const response = { status: 201, headers: { location: "/orders/42" }, body: new Uint8Array([0, 255, 13, 10]) };
let keys = 0;

function uniqueClaim(owner = "o1") {
  return { scope: "user", key: `key ${keys++}`, fingerprint: "f", owner, leaseMs: 60_000, ttlMs: 600_000 };
}

describe.each(Object.keys(topologies) as Topology[])("%s", (topology) => {
  let servers: Servers;
  beforeAll(async () => {
    servers = await topologies[topology]();
  });
  afterAll(() => servers?.stop());

  for (const [name, openers] of Object.entries(clients)) {
    const open = openers[topology];
    if (!open) {
      it(`has no client of ${name}`, () => expect(open).toBeUndefined());
      continue;
    }
    describe(name, () => {
      let store: IdempotencyStore;
      let close: () => unknown;
      beforeAll(async () => {
        const opened = open(servers);
        await opened.ready;
        store = redisIdempotencyStore(opened.client);
        close = opened.close;
      });
      afterAll(() => close?.());
      idempotencySuite(`${name}, ${topology}`, () => store, runner);
      clientTests(open, () => servers);
    });
  }
});

function clientTests(open: Open, servers: () => Servers): void {
  const openStore = async () =>
    redisIdempotencyStore(await openClient({ open: () => open(servers()) }, onTestFinished));

  it("starts each of 100 keys once for two clients", async () => {
    const stores = [await openStore(), await openStore()];
    const claims = Array.from({ length: 100 }, () => uniqueClaim());
    const results = await Promise.all(
      stores.map((store, i) => Promise.all(claims.map((claim) => store.begin({ ...claim, owner: `client-${i}` })))),
    );
    const starts = claims.map((_, k) => results.filter((list) => list[k]?.state === "started").length);
    expect(starts).toEqual(Array(100).fill(1));
  });

  it("waits while a client connects, and fails at once after it is closed", async () => {
    const { client, ready, close } = open(servers());
    const store = redisIdempotencyStore(client);
    const [first] = await Promise.allSettled([store.begin(uniqueClaim()), ready]);
    expect(first).toMatchObject({ status: "fulfilled", value: { state: "started", attempt: 1 } });
    await close();
    const start = performance.now();
    await expect(store.begin(uniqueClaim())).rejects.toMatchObject({ code: "store-unavailable" });
    expect(performance.now() - start).toBeLessThan(1000);
  });

  it("loads its script again after it was flushed", async () => {
    const store = await openStore();
    await store.begin(uniqueClaim());
    await servers().callAll("SCRIPT", "FLUSH");
    expect(await store.begin(uniqueClaim())).toEqual({ state: "started", attempt: 1 });
  });

  it("uses the client's key prefix, and every value has a TTL", async () => {
    const client = await openClient({ open: () => open(servers(), { keyPrefix: "app:" }) }, onTestFinished);
    const store = redisIdempotencyStore(client, { hmacSecret: "prefix" });
    await servers().callAll("FLUSHALL");
    const claim = uniqueClaim();
    await store.begin(claim);
    expect(await store.complete(claim, "o1", response, 60_000)).toBe(true);
    expect(await store.begin(claim)).toEqual({ state: "completed", same: true });
    expect(await store.read(claim, claim.fingerprint)).toEqual(response);
    const names = (await servers().callAll("KEYS", "*i1:{*}")).flat();
    expect(names).toHaveLength(1);
  });

  it("starts once if a reply is lost, whether or not the client sends the call again", async () => {
    const { addresses, setMode, stop } = await behindProxies(servers());
    onTestFinished(async () => void (await stop()));
    const { client, ready, close } = open(addresses);
    onTestFinished(async () => void (await close()));
    await ready;
    const store = redisIdempotencyStore(client);
    const witness = await openStore();
    const claim = uniqueClaim();
    // Clients of a cluster connect to a node when they first need it.
    await store.begin({ ...claim, owner: "connects" });
    await store.release(claim, "connects");
    setMode("drop-replies");
    const lost = store.begin(claim).then(
      ({ state }) => state,
      (error: { code: string }) => error.code,
    );
    while ((await witness.renew(claim, "o1", 60_000)) === false) await sleep(5);
    setMode("pass");
    // A client that resends the call gets the same answer; one that does not fails, and the owner may try again.
    expect(["started", "store-unavailable", "pending"]).toContain(await Promise.race([lost, sleep(3000, "pending")]));
    expect(await witness.begin(claim)).toEqual({ state: "started", attempt: 1 });
    expect(await witness.begin({ ...claim, owner: "o2" })).toMatchObject({ state: "in-progress", same: true });
  });
}

describe("Upstash", () => {
  let servers: Servers;
  let bridge: UpstashBridge;
  beforeAll(async () => {
    servers = await topologies["single server"]();
    bridge = await startUpstashBridge(servers.ports[0] as number);
  });
  afterAll(async () => {
    await bridge?.stop();
    await servers?.stop();
  });

  const options: [string, Partial<RedisConfigNodejs>][] = [
    ["@upstash/redis", {}],
    ["@upstash/redis, automaticDeserialization: false", { automaticDeserialization: false }],
    ["@upstash/redis, enableAutoPipelining: false", { enableAutoPipelining: false }],
    ["@upstash/redis, responseEncoding: false", { responseEncoding: false }],
  ];
  for (const [name, own] of options) {
    const create = () =>
      upstashIdempotencyStore(new Redis({ url: bridge.url, token: bridge.token, retry: { retries: 0 }, ...own }));
    idempotencySuite(name, create, runner);
  }
});
