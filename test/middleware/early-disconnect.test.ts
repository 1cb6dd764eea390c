/** Clients that disconnect, and applications that respond, while an asynchronous limiter is still deciding. */
import { once } from "node:events";
import { connect, constants, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { concurrency, createLimiter, memoryRateLimiter, tokenBucket } from "sluice";
import { type NodeHandler, type NodeRateLimitOptions, type RequestOutcome, rateLimit } from "sluice/node";
import { expect, it, onTestFinished } from "vitest";
import { flakyStore } from "../flaky-store.ts";
import { until } from "../servers/until.js";
import { listen } from "./mount.ts";

/** A server whose limiter decides on demand. */
async function deciding(decision: object, options: Partial<NodeRateLimitOptions>, handler?: NodeHandler) {
  const outcomes: RequestOutcome[] = [];
  const waiting: (() => void)[] = [];
  const seen = { handled: 0, closed: 0 };
  const numbers = { policy: "p", limit: 9, remaining: 5, resetAfterMs: 1000, nextAfterMs: 1000 };
  const limit = rateLimit({
    limiter: {
      consume: () => new Promise((resolve) => waiting.push(() => resolve({ ...numbers, ...decision } as never))),
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

const waitFor = (what: string, isMet: () => boolean) => until(what, async () => (isMet() ? undefined : "not yet"));

it.each([
  ["continues, as it would without a limiter", {}, 1],
  ["is dropped if it would have been delayed", { delayMs: 5 }, 0],
])("a request whose client disconnected before the decision %s", async (_what, more, handled) => {
  const { url, outcomes, waiting, seen } = await deciding({ allowed: true, ...more }, {});
  const leaver = new AbortController();
  const left = fetch(url, { signal: leaver.signal }).catch(() => "left");
  await waitFor("the request is decided about", () => waiting.length === 1);
  leaver.abort();
  expect(await left).toBe("left");
  await waitFor("the server notices", () => seen.closed === 1);
  waiting[0]?.();
  await waitFor("the request is finished", () => outcomes.length === 1);
  expect(outcomes).toEqual([{ status: undefined, aborted: true }]);
  // A delayed request would have reached the handler by now.
  await fetch(url, { signal: AbortSignal.timeout(20) }).catch(() => undefined);
  expect(seen.handled).toBe(handled);
});

it("a denial after the response of the application has no effect", async () => {
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

it("an HTTP/2 request whose client disconnected before the decision holds nothing", async () => {
  const store = flakyStore();
  const limiter = createLimiter({ policy: concurrency(2), store, deadlineMs: 10_000 });
  const seen = { handled: 0, closed: 0 };
  const limited = rateLimit({ limiter, key: () => "k" })(() => void seen.handled++);
  const server = createServer((request, response) => {
    response.once("close", () => seen.closed++);
    limited(request as never, response as never);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => {
    client.destroy();
    server.close();
  });
  store.mode = "hang";
  const request = client.request({ ":path": "/" }).on("error", () => {});
  await waitFor("the request is decided about", () => store.calls === 1);
  request.close(constants.NGHTTP2_CANCEL);
  await waitFor("the server notices", () => seen.closed === 1);
  store.mode = "decide";
  store.release();
  await until("the hold is released", async () => {
    const isReleased = store.groups.length > 1 && (await limiter.peek("k")).held === undefined;
    return isReleased ? undefined : "not yet";
  });
  expect(seen.handled).toBe(0);
});
