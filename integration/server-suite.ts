/** What every server is put through: the suite in memory and on a real Redis, and a Redis that goes away. */
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

/** A kind of server, with an app of its own. */
export interface Server extends Omit<MiddlewareSubject, "start"> {
  readonly kit: RouteKit;
  /** Starts an app that has these routes, on a free port of loopback. */
  start(routes: readonly GuardedRoute[]): ReturnType<MiddlewareSubject["start"]>;
}

/** Certifies a server. */
export function serverSuite(name: string, server: Server): void {
  const { kit, start, ...subject } = server;
  middlewareSuite(`${name}, memory`, { ...subject, start: () => start(guardedRoutes(kit)) }, { describe, it });
  middlewareSuite(
    `${name}, Redis`,
    {
      ...subject,
      async start() {
        const redis = await onRedis();
        const { url, close } = await start(guardedRoutes({ ...kit, limiter: (policy) => redis.limiter(policy) }));
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
  describe(`${name}, Redis that goes away`, () => {
    it("answers as it was told to while Redis is gone, and by Redis again when it is back", () => outage(server));
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
    const told = response.headers.get("RateLimit")?.split(";")[0] ?? null;
    return { status: response.status, told, retryAfter: response.headers.get("Retry-After") };
  };

  expect(await send("/closed")).toMatchObject({ status: 200, told: '"closed"' });
  expect(await send("/local")).toMatchObject({ status: 200, told: '"local"' });

  await redis.server.kill();
  for (let i = 0; i < 6; i++) {
    expect(await send("/closed")).toEqual({
      status: 503,
      told: null,
      retryAfter: expect.stringMatching(/^[1-9]/),
    });
  }
  for (const status of [200, 200, 429]) expect(await send("/local")).toMatchObject({ status, told: null });

  await redis.server.restart();
  const back = async (path: string, told: string) => {
    const answer = await send(path);
    return answer.status === 200 && answer.told === told ? undefined : JSON.stringify(answer);
  };
  await until("Redis was not asked again", () => back("/closed", '"closed"'));
  await until("Redis was not asked again", () => back("/local", '"local"'));
}
