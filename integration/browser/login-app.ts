/** The login example on its own Redis, and a log of the requests that it received. */
import { once } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { Redis } from "ioredis";
import { redisStore } from "sluice/redis";
import { createApp } from "../../examples/login/app.js";
import { startTurnstileStandIn } from "../../examples/login/turnstile-stand-in.js";
import { startRedis } from "../../test/servers/redis-server.js";

/** A request as the app received it. */
export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

/** Starts Redis, the stand-in for Turnstile and the app, twice. */
export async function startLoginApp() {
  const [server, standIn] = await Promise.all([startRedis(), startTurnstileStandIn()]);
  const redis = new Redis({ host: "127.0.0.1", port: server.port });
  const requests: ReceivedRequest[] = [];
  let [visitors, visitor] = [0, "203.0.113.0"];
  const start = async () => {
    const example = createApp({
      store: redisStore(redis),
      provider: standIn.provider,
      clearanceSecret: "a key of at least thirty-two bytes",
      operatorToken: "operator",
    });
    const app = express();
    app.use(({ method, path, headers }, _response, next) => {
      requests.push({ method, path, headers });
      // Here, and not in the browser, which would not send it with prefetches.
      headers["x-forwarded-for"] ??= visitor;
      next();
    }, example);
    const listener = app.listen(0, "127.0.0.1");
    await once(listener, "listening");
    return { listener, url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}` };
  };
  const [first, second] = await Promise.all([start(), start()]);
  return {
    url: first.url,
    /** The app in another process with the same Redis, as it were. */
    secondUrl: second.url,
    /** Origin of the widget. */
    widgetOrigin: standIn.provider.frameOrigin,
    requests,
    /** Makes all further requests those of a new IP address, which is returned, and clears their log. */
    nextVisitor() {
      requests.length = 0;
      visitor = `203.0.113.${++visitors}`;
      return visitor;
    },
    /** Forgets all limits and blocks. */
    async forget() {
      await redis.flushall();
    },
    async close() {
      for (const { listener } of [first, second]) {
        listener.close();
        listener.closeAllConnections();
      }
      standIn.close();
      redis.disconnect();
      await server.stop();
    },
  };
}
