/** Runs the apps of docs/middleware/nestjs.md and docs/migrating/from-nestjs-throttler.md. */
import "reflect-metadata";
import { fileURLToPath } from "node:url";
import type { DynamicModule, Type } from "@nestjs/common";
import { APP_FILTER, APP_GUARD, NestFactory } from "@nestjs/core";
import { RateLimitGuard } from "sluice/nestjs";
import { describe, expect, it, onTestFinished } from "vitest";
import { startRedis } from "../../test/servers/redis-server.js";
import { sameSnippets } from "../same-snippets.ts";
import { sendRequest } from "../send-request.ts";
import { AppModule } from "./docs/app.module.ts";
import { RateLimitFilter } from "./docs/filter.ts";
import { limits as perHandler } from "./docs/per-handler.ts";
import { limits as onRedis } from "./docs/redis.ts";
import { AppModule as After, AppController as AfterController } from "./docs/throttler-after.ts";
import { AppModule as Before } from "./docs/throttler-before.ts";

sameSnippets("nestjs", fileURLToPath(new URL("docs", import.meta.url)));

async function started(module: Type | DynamicModule): Promise<string> {
  const app = await NestFactory.create(module, { logger: false });
  app.enableShutdownHooks();
  await app.listen(0, "127.0.0.1");
  onTestFinished(() => app.close());
  return app.getUrl();
}

/** A module with the guard and the limits of one page's part. */
const moduleOf = (limits: DynamicModule, controller: Type, ...providers: object[]): DynamicModule => ({
  module: class {},
  imports: [limits],
  controllers: [controller],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }, ...(providers as [])],
});

const statuses = async (url: string, count: number, path: string, init: RequestInit = {}) => {
  const found: number[] = [];
  for (let i = 0; i < count; i++) {
    const response = await fetch(new URL(path, url), init);
    await response.text();
    found.push(response.status);
  }
  return found;
};
const login = (name: string): RequestInit => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ name }),
});

describe("docs/middleware/nestjs.md", () => {
  it("runs its app", async () => {
    const url = await started(AppModule);
    expect(await statuses(url, 4, "/login", login("ada"))).toEqual([201, 201, 201, 429]);
    expect(await statuses(url, 1, "/login", login("eve"))).toEqual([201]);
    expect(await statuses(url, 1, "/export")).toEqual([200]);
    expect(await statuses(url, 6, "/")).toEqual([200, 200, 200, 200, 200, 429]);
    expect(await statuses(url, 1, "/health")).toEqual([200]);
  });

  it("limits on Redis", async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    process.env.REDIS_URL = redis.url;
    const urls = [await started(moduleOf(onRedis, AfterController)), await started(moduleOf(onRedis, AfterController))];
    const found: number[] = [];
    for (const url of [...urls, ...urls]) found.push(...(await statuses(url, 1, "/reports")));
    expect(found).toEqual([200, 200, 429, 429]);
    expect(String(await redis.call("INFO", "commandstats"))).toContain("cmdstat_evalsha");
  });

  it("sends the body of its filter", async () => {
    const filter = { provide: APP_FILTER, useClass: RateLimitFilter };
    const url = await started({ module: class {}, imports: [AppModule], providers: [filter] });
    await statuses(url, 2, "/export");
    const { status, body, header } = await sendRequest(url, "/");
    expect([status, JSON.parse(body)]).toEqual([429, { error: "slow down", seconds: 360 }]);
    expect(header("Retry-After")).toBe("360");
  });
});

describe("docs/migrating/from-nestjs-throttler.md", () => {
  const times = (count: number, status: number) => Array.from({ length: count }, () => status);

  it("has the same results in both apps where its table says so", async () => {
    for (const module of [Before, After]) {
      const url = await started(module);
      expect(await statuses(url, 12, "/reports"), module.name).toEqual([...times(10, 200), 429, 429]);
      expect(await statuses(url, 4, "/login", { method: "POST" })).toEqual([...times(3, 201), 429]);
      expect(await statuses(url, 12, "/health")).toEqual(times(12, 200));
      expect(await statuses(url, 12, "/nothing")).toEqual(times(12, 404));
    }
  });

  it("has the results of its table where the apps differ", async () => {
    const [before, after] = [await started(Before), await started(After)];
    const first = [await sendRequest(before, "/reports"), await sendRequest(after, "/reports")];
    const numbers = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];
    expect(first.map(({ header }) => numbers.map(header))).toEqual([
      ["10", "9", "60"],
      ["10", "9", "6"],
    ]);
    for (const url of [before, after]) await statuses(url, 9, "/reports");
    const denied = [await sendRequest(before, "/reports"), await sendRequest(after, "/reports")];
    expect(denied.map(({ status, header }) => [status, header("Retry-After")])).toEqual([
      [429, "60"],
      [429, "6"],
    ]);
    expect(denied.map(({ body }) => JSON.parse(body))).toEqual([
      { statusCode: 429, message: "ThrottlerException: Too Many Requests" },
      expect.objectContaining({ title: "Quota Exceeded", status: 429 }),
    ]);
    // Each handler has its own bucket there.
    expect(await statuses(before, 1, "/invoices")).toEqual([200]);
    expect(await statuses(after, 1, "/invoices")).toEqual([429]);
  });

  it("has a bucket per handler and client with the key of the page", async () => {
    const url = await started(moduleOf(perHandler, AfterController));
    expect(await statuses(url, 11, "/reports")).toEqual([...times(10, 200), 429]);
    expect(await statuses(url, 11, "/invoices")).toEqual([...times(10, 200), 429]);
  });
});
