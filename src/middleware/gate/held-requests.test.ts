/** Tests the holds of requests beside delays, refunds, costs of 0, and handlers that settle themselves. Time is fake. */
import { concurrency, createLimiter, hold, leakyBucket, memoryStore, type Policy } from "sluice";
import { getRateLimit, rateLimit } from "sluice/fetch";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

const tokens: Policy = { capacity: 100, tokensPerSecond: "1/h", name: "tokens" };
const key = () => "k";
const request = () => new Request("http://localhost/");

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it("charges once if the handler settles the hold itself and streams on", async () => {
  const limiter = createLimiter({ policy: tokens, store: memoryStore() });
  let end = () => {};
  const handle = rateLimit({ limiter, key, hold: { estimate: 10, forMs: "3s" } })(async (request: Request) => {
    await getRateLimit(request)?.hold?.settle(2);
    return new Response(new ReadableStream({ start: (controller) => void (end = () => controller.close()) }));
  });
  const body = (await handle(request())).text();
  await vi.advanceTimersByTimeAsync(2500);
  expect((await limiter.peek("k")).held).toBeUndefined();
  end();
  await body;
  expect(await limiter.peek("k")).toMatchObject({ remaining: 98 });
});

it("cancels the hold and refunds the queue if a request would wait too long", async () => {
  const store = memoryStore();
  const queue = createLimiter({ policy: leakyBucket("1/m", { burst: 10, name: "queue" }), store });
  const streams = createLimiter({ policy: concurrency(5, { name: "streams" }), store });
  const events: unknown[] = [];
  const handle = rateLimit({
    limits: [{ limiter: queue }, { limiter: streams }],
    key,
    maxDelayMs: 10,
    onEvent: (event) => void events.push(event),
  })(() => new Response(null));
  expect((await handle(request())).status).toBe(200);
  expect((await handle(request())).status).toBe(429);
  expect((await streams.peek("k")).held).toBeUndefined();
  expect(await queue.peek("k")).toMatchObject({ remaining: 9 });
  expect(events).toEqual([]);
});

it("rejects refundIf beside a concurrency limit of limits", async () => {
  const limiter = createLimiter({ policy: concurrency(5) });
  expect(() => rateLimit({ limits: [{ limiter }], key, refundIf: "failed" })).toThrow(/refundIf can't be combined/);
  const errors: unknown[] = [];
  const onError = (error: unknown) => void errors.push(error);
  const chosen = rateLimit({ limits: [{ limiter: () => limiter }], key, refundIf: "failed", onError });
  expect((await chosen(() => new Response(null))(request())).status).toBe(500);
  expect(errors).toMatchObject([{ code: "invalid-option", option: "refundIf" }]);
});

it("allows a cost of 0 on a concurrency limit, which holds nothing", async () => {
  const limiter = createLimiter({ policy: concurrency(1), store: memoryStore() });
  const rate = createLimiter({ policy: tokens, store: memoryStore() });
  await hold(limiter, "k");
  const alone = rateLimit({ limiter, key, cost: () => 0 })(() => new Response(null));
  expect((await alone(request())).status).toBe(200);
  const limits = [{ limiter: rate }, { limiter, cost: () => 0 }];
  expect((await rateLimit({ limits, key })(() => new Response(null))(request())).status).toBe(200);
  expect((await limiter.peek("k")).held).toBe(1);
  expect((await rate.peek("k")).remaining).toBe(99);
});
