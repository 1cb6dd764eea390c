/** Tests when the hold of a `Response` is released: whatever the handler returns, and whoever reads it. */
import { concurrency, createLimiter, memoryStore, type Policy } from "sluice";
import { getRateLimit, rateLimit } from "sluice/fetch";
import { expect, it, vi } from "vitest";
import { collectGarbage } from "../../../test/collect-garbage.ts";

const tokens: Policy = { capacity: 100, tokensPerSecond: "1/h", name: "tokens" };
const key = () => "k";
const request = () => new Request("http://localhost/");
const inFlight = () => createLimiter({ policy: concurrency(2), store: memoryStore() });

it("releases the hold if the handler returns nothing, or a body that can't be read", async () => {
  const limiter = inFlight();
  const limited = rateLimit({ limiter, key });
  await expect(limited((() => undefined) as never)(request())).rejects.toThrow(TypeError);
  const locked = new Response("text");
  locked.body?.getReader();
  await expect(limited(() => locked)(request())).rejects.toThrow(/locked/);
  expect((await limiter.peek("k")).held).toBeUndefined();
});

it("charges what the handler's stream reports when the client disconnects", async () => {
  const limiter = createLimiter({ policy: tokens, store: memoryStore() });
  const handle = rateLimit({ limiter, key, hold: { estimate: 50 } })((request: Request) => {
    let sent = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          sent++;
          controller.enqueue(new Uint8Array(1));
        },
        async cancel() {
          await Promise.resolve();
          getRateLimit(request)?.settle?.(sent);
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(body);
  });
  const reader = (await handle(request())).body?.getReader();
  await reader?.read();
  await reader?.read();
  await reader?.cancel();
  expect((await limiter.peek("k")).remaining).toBe(98);
});

it("releases the hold before it returns a response without a body", async () => {
  const limiter = inFlight();
  await rateLimit({ limiter, key })(() => new Response(null, { status: 204 }))(request());
  expect((await limiter.peek("k")).held).toBeUndefined();
});

it.skipIf(!collectGarbage)(
  "releases the hold of a response that is discarded, and keeps one that can be read",
  async () => {
    const limiter = inFlight();
    const handle = rateLimit({ limiter, key })(() => new Response("text"));
    const kept = await handle(request());
    await (async () => void (await handle(request())))();
    await vi.waitFor(
      async () => {
        collectGarbage?.();
        expect((await limiter.peek("k")).held).toBe(1);
      },
      { timeout: 5000, interval: 10 },
    );
    expect(await kept.text()).toBe("text");
    expect((await limiter.peek("k")).held).toBeUndefined();
  },
);
