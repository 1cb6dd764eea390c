/** An Express server that runs at most 5 requests per client at once. */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import express from "express";
import { concurrency, memoryRateLimiter } from "sluice";
import { rateLimit } from "sluice/express";

export const LIMIT = 5;

/** Starts the server. `mostAtOnce` is counted in the handlers, by client. */
export async function startServer() {
  const limiter = memoryRateLimiter(concurrency(LIMIT, { leaseMs: "30s", name: "in-flight" }));
  /** @type {Map<string, number>} */
  const running = new Map();
  let mostAtOnce = 0;

  /** Replace this with your authentication. */
  const clientOf = (/** @type {import("express").Request} */ request) =>
    `client:${request.get("x-client") ?? "unknown"}`;

  const app = express();

  // A slot is free when the response was sent, the client has disconnected or the handler has thrown.
  app.use(rateLimit({ limiter, key: clientOf }));

  // The limit is checked against this count, which knows nothing of the limiter.
  app.use((request, response, next) => {
    const client = clientOf(request);
    const count = (running.get(client) ?? 0) + 1;
    running.set(client, count);
    mostAtOnce = Math.max(mostAtOnce, count);
    response.on("close", () => running.set(client, (running.get(client) ?? 0) - 1));
    next();
  });

  app.get("/report", async (_request, response) => {
    await delay(20);
    response.json({ rows: 100 });
  });

  app.get("/stream", async (_request, response) => {
    for (let i = 0; i < 4 && !response.destroyed; i++) {
      response.write(`row ${i}\n`);
      await delay(10);
    }
    response.end();
  });

  app.get("/broken", async () => {
    await delay(5);
    throw new Error("The report is broken.");
  });

  /** @type {import("express").ErrorRequestHandler} */
  const onError = (_error, _request, response, _next) => void response.status(500).json({ error: "failed" });
  app.use(onError);

  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}`,
    limiter,
    get mostAtOnce() {
      return mostAtOnce;
    },
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}
