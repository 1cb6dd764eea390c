/** Penalties through a middleware: one table of cases, equal on memory and Redis. Durable Objects: test/cloudflare. */
import { memoryStore } from "sluice";
import { abuse } from "sluice/abuse";
import { rateLimit } from "sluice/fetch";
import { redisStore } from "sluice/redis";
import { loadRules } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { onFakeTime } from "../redis/on-fake-time.ts";
import { redis } from "../redis/own-redis.ts";
import { spiedClient, withEmptyDatabase } from "../redis/spied-client.ts";
import { withRedis } from "../servers/needs.ts";
import { expected, runTable, summaryOf } from "./penalty-table.ts";

function inMemory() {
  const clock = fakeClock();
  return runTable(memoryStore({ clock }), (ms) => clock.advance(ms));
}

describe("penalties", () => {
  it("block, grow, are forgotten and are ended as the table says", async () => {
    expect(summaryOf(await inMemory())).toEqual(expected());
  });

  it("are equal field by field on Redis", withRedis, async () => {
    const clock = fakeClock();
    // TTLs pass in real time, not in that of the fake clock.
    const store = redisStore(onFakeTime(redis, clock), { ttlMs: "1h" });
    expect(await runTable(store, (ms) => clock.advance(ms))).toEqual(await inMemory());
  });
});

describe("penalties on Redis", withRedis, () => {
  withEmptyDatabase();

  const loginApp = (penalty: object, limits: object) => {
    const client = spiedClient();
    const store = redisStore(client);
    const data = {
      rules: [{ name: "login", match: "POST /login", limits, penalty: true }],
      fallback: { limits: { ip: "100/s" } },
    };
    const rules = loadRules(data, { store, facts: ["account"], deadlineMs: 20_000 });
    const prevention = abuse({ penalty });
    const handler = rateLimit({
      rules,
      abuse: prevention,
      identity: { trustedProxies: 1, header: "x-client" },
      facts: { account: () => "ada" },
    })(() => new Response("ok"));
    const send = async (ip: string): Promise<number> => {
      const request = new Request("http://localhost/login", { method: "POST", headers: { "x-client": ip } });
      return (await handler(request)).status;
    };
    return { client, prevention, send };
  };

  it("count every denial of an unblocked key, and cost a flood nothing once it is blocked", async () => {
    const { client, prevention, send } = loginApp({ strikes: 20 }, { ip: "5/h log" });
    for (let i = 0; i < 5; i++) expect(await send("203.0.113.7")).toBe(200);
    client.calls.length = 0;
    // No denial is replayed from the cache until the key is blocked: each is a strike.
    for (let i = 0; i < 20; i++) expect(await send("203.0.113.7")).toBe(429);
    expect(client.calls).toHaveLength(20);
    expect(client.calls.every(({ keys }) => keys.length === 2)).toBe(true);
    expect(await prevention.status("ip:203.0.113.7")).toMatchObject({ strikes: 20 });
    client.calls.length = 0;
    for (let i = 0; i < 1000; i++) expect(await send("203.0.113.7")).toBe(429);
    expect(client.calls.length).toBeLessThanOrEqual(2);
    expect(await prevention.status("ip:203.0.113.7")).toMatchObject({ strikes: 20 });
  });

  it("cost a flood nothing also if only one of two penalties blocks", async () => {
    const { client, prevention, send } = loginApp([{}, { per: "ip+account" }], { ip: "100/h" });
    await prevention.block("ip:203.0.113.7", "1h");
    client.calls.length = 0;
    for (let i = 0; i < 200; i++) expect(await send("203.0.113.7")).toBe(429);
    expect(client.calls.length).toBeLessThanOrEqual(2);
  });

  it("let the owner of an account pass that 1000 addresses attack", async () => {
    const penalty = [{ strikes: 3 }, { per: "ip+account", strikes: 2 }];
    const { prevention, send } = loginApp(penalty, { ip: "20/h log", "ip+account": "3/h log" });
    const attackers = Array.from({ length: 1000 }, (_, i) => `198.51.${100 + (i >> 8)}.${i & 255}`);
    for (let round = 0; round < 6; round++) await Promise.all(attackers.map(send));
    const blocks = await Promise.all(attackers.map((ip) => prevention.status(`ip:${ip}+account:ada`)));
    expect(blocks.filter((block) => block !== undefined)).toHaveLength(1000);
    expect(await send("203.0.113.7")).toBe(200);
  });
});
