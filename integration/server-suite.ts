/** The tests of every server: the suite in memory and on a real Redis, and an outage of Redis. */
import {
  type GuardedRoute,
  guardedRoutes,
  type MiddlewareSubject,
  middlewareSuite,
  type RouteKit,
} from "sluice/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "../test/servers/until.js";
import { onRedis } from "./on-redis.ts";

/** A server under test. */
export interface Server extends Omit<MiddlewareSubject, "start"> {
  readonly kit: RouteKit;
  /** Starts an app with these routes on a free loopback port. */
  start(routes: readonly GuardedRoute[]): ReturnType<MiddlewareSubject["start"]>;
}

/** Runs all tests of a server. */
export function serverSuite(name: string, server: Server): void {
  const { kit, start, ...subject } = server;
  middlewareSuite(`${name}, memory`, { ...subject, start: () => start(guardedRoutes(kit)) }, { describe, it });
  middlewareSuite(
    `${name}, Redis`,
    {
      ...subject,
      async start() {
        const redis = await onRedis();
        const { url, close } = await start(
          guardedRoutes({
            ...kit,
            limiter: (policy) => redis.limiter(policy),
            idempotencyStore: () => redis.idempotencyStore(),
          }),
        );
        return {
          url,
          async close() {
            await close();
            await redis.close();
          },
        };
      },
    },
    { describe, it },
  );
  describe(`${name}, Redis outage`, () => {
    it("follows onStoreError while Redis is down, and uses Redis again when it is back", () => outage(server));
  });
}

async function outage({ start }: Server): Promise<void> {
  const redis = await onRedis();
  onTestFinished(redis.close);
  const route = (name: "closed" | "local", capacity: number): GuardedRoute => ({
    path: `/${name}`,
    before: {},
    rateLimits: [
      {
        limiter: redis.limiter({ capacity, tokensPerSecond: "1/d", name }, { onStoreError: name, deadlineMs: 200 }),
        key: () => "everyone",
      },
    ],
    handle: () => ({ status: 200, headers: { "Content-Type": "text/plain" }, body: "ok" }),
  });
  const app = await start([route("closed", 10_000), route("local", 2)]);
  onTestFinished(app.close);
  const send = async (path: string) => {
    const response = await fetch(new URL(path, app.url));
    await response.text();
    const policy = response.headers.get("RateLimit")?.split(";")[0] ?? null;
    return { status: response.status, policy, retryAfter: response.headers.get("Retry-After") };
  };

  expect(await send("/closed")).toMatchObject({ status: 200, policy: '"closed"' });
  expect(await send("/local")).toMatchObject({ status: 200, policy: '"local"' });

  await redis.server.kill();
  for (let i = 0; i < 6; i++) {
    expect(await send("/closed")).toEqual({
      status: 503,
      policy: null,
      retryAfter: expect.stringMatching(/^[1-9]/),
    });
  }
  for (const status of [200, 200, 429]) expect(await send("/local")).toMatchObject({ status, policy: null });

  await redis.server.restart();
  const isBack = async (path: string, policy: string) => {
    const response = await send(path);
    return response.status === 200 && response.policy === policy ? undefined : JSON.stringify(response);
  };
  await until("Redis was not used again", () => isBack("/closed", '"closed"'));
  await until("Redis was not used again", () => isBack("/local", '"local"'));
}
