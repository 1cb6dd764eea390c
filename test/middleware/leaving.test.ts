/** Clients that leave, and applications that answer, while an asynchronous limiter is still deciding. */
import { memoryRateLimiter, tokenBucket } from "sluice";
import { type NodeHandler, type NodeRateLimitOptions, type RequestOutcome, rateLimit } from "sluice/node";
import { expect, it, onTestFinished } from "vitest";
import { until } from "../servers/until.js";
import { listen } from "./mount.ts";

/** A server whose limiter decides when it is told to. */
async function deciding(decision: object, options: Partial<NodeRateLimitOptions>, handler?: NodeHandler) {
  const outcomes: RequestOutcome[] = [];
  const waiting: (() => void)[] = [];
  const seen = { handled: 0, closed: 0 };
  const figures = { policy: "p", limit: 9, remaining: 5, resetAfterMs: 1000, nextAfterMs: 1000 };
  const limit = rateLimit({
    limiter: {
      consume: () => new Promise((resolve) => waiting.push(() => resolve({ ...figures, ...decision } as never))),
      refund() {},
    },
    refundIf(outcome) {
      outcomes.push(outcome);
      return true;
    },
    ...options,
  });
  const limited = limit(
    handler ??
      ((_request, response) => {
        seen.handled++;
        response.end("ok");
      }),
  );
  const server = await listen((request, response) => {
    response.once("close", () => seen.closed++);
    limited(request, response);
  });
  onTestFinished(() => server.close());
  return { url: server.url, outcomes, waiting, seen };
}

const come = (what: string, holds: () => boolean) => until(what, async () => (holds() ? undefined : "not yet"));

it.each([
  ["goes on, as it would without a limiter", {}, 1],
  ["stays away when it would have been held", { delayMs: 5 }, 0],
])("a request whose client left before the decision %s", async (_what, more, handled) => {
  const { url, outcomes, waiting, seen } = await deciding({ allowed: true, ...more }, {});
  const leaver = new AbortController();
  const left = fetch(url, { signal: leaver.signal }).catch(() => "left");
  await come("the request is decided about", () => waiting.length === 1);
  leaver.abort();
  expect(await left).toBe("left");
  await come("the server notices", () => seen.closed === 1);
  waiting[0]?.();
  await come("the request is settled", () => outcomes.length === 1);
  expect(outcomes).toEqual([{ status: undefined, aborted: true }]);
  // A held request would have come by now.
  await fetch(url, { signal: AbortSignal.timeout(20) }).catch(() => undefined);
  expect(seen.handled).toBe(handled);
});

it("a denial that comes after the application has answered changes nothing", async () => {
  const errors: unknown[] = [];
  const limiter = memoryRateLimiter(tokenBucket("1/d"));
  await limiter.consume("ip:127.0.0.1");
  let decided = () => {};
  const waits = new Promise<void>((resolve) => {
    decided = resolve;
  });
  const limited = rateLimit({
    limiter: { consume: (key) => waits.then(() => limiter.consume(key)) },
    onError: (error) => void errors.push(error),
  })((_request, response) => void response.end("handler"));
  const server = await listen((request, response) => {
    limited(request, response);
    response.writeHead(503).end("too slow");
  });
  onTestFinished(() => server.close());
  const response = await fetch(server.url);
  expect([response.status, await response.text()]).toEqual([503, "too slow"]);
  decided();
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(errors).toEqual([]);
});
