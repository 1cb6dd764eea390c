/** Slots of pipelined requests on h3, whose signals are not aborted, and whose handlers never return. */
import { connect } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { H3, serve } from "h3";
import { concurrency, memoryRateLimiter } from "sluice";
import { rateLimit } from "sluice/h3";
import { expect, it, onTestFinished, vi } from "vitest";

it("frees the slots of pipelined requests a minute after their client has disconnected", async () => {
  const slots = memoryRateLimiter(concurrency(5, { leaseMs: "2s" }));
  const app = new H3({ silent: true });
  app.use(rateLimit({ limiter: slots, key: () => "k" }));
  app.get("/", () => new Promise(() => {}));
  const server = serve(app, { port: 0, hostname: "127.0.0.1", silent: true });
  await server.ready();
  onTestFinished(() => server.close(true));
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const socket = connect(Number(new URL(server.url as string).port), "127.0.0.1").on("error", () => {});
  socket.resume().write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5));
  while ((await slots.peek("k")).held !== 5) await nextTurn();
  socket.destroy();
  for (let i = 0; i < 100; i++) await nextTurn();
  expect((await slots.peek("k")).held).toBe(5);
  vi.advanceTimersByTime(60_000);
  await nextTurn();
  expect((await slots.peek("k")).held ?? 0).toBe(0);
});
