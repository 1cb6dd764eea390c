/** Holds and stored responses of clients that disconnect, where a server differs from the cases of the suite. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, constants, createServer } from "node:http2";
import { type AddressInfo, connect as connectSocket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { serve as serveHono } from "@hono/node-server";
import { Hono } from "hono";
import { concurrency, createLimiter, hold, memoryRateLimiter, memoryStore, tokenBucket } from "sluice";
import { getRateLimit as fetchRateLimit, rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit as limitHono } from "sluice/hono";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { getRateLimit, idempotent, type NodeHandler, type NodeRateLimitOptions, rateLimit } from "sluice/node";
import { rateLimit as limitReactRouter, getRateLimit as reactRouterDecision } from "sluice/react-router";
import { defineRules } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { until } from "../servers/until.js";
import { listen } from "./mount.ts";

afterEach(() => void vi.useRealTimers());

const settled = (what: string, isMet: () => unknown) =>
  until(what, async () => ((await isMet()) ? undefined : "not yet"));

/** Sends a request on a connection of its own. Returns a function that disconnects. */
async function send(url: string, text = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"): Promise<() => void> {
  const socket = connectSocket(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
  socket.resume().write(text);
  return () => void socket.destroy();
}

async function serve(options: NodeRateLimitOptions, handler: NodeHandler) {
  const server = await listen(rateLimit({ key: () => "k", ...options })(handler));
  onTestFinished(server.close);
  return server;
}

describe("a slot of node:http", () => {
  const slots = memoryRateLimiter(concurrency(5, { leaseMs: "2s" }));
  const held = async () => (await slots.peek("k")).held ?? 0;

  it("is free when a handler that pipes a stream has lost its client", async () => {
    const { Readable } = await import("node:stream");
    let closed = false;
    const { url } = await serve({ limiter: slots }, (_request, response) => {
      const stream = new Readable({ read: () => {} });
      stream.push("first");
      stream.pipe(response.on("close", () => (closed = true)));
    });
    const disconnect = await send(url);
    await settled("the request is held", async () => (await held()) === 1);
    disconnect();
    await settled("the response is closed", () => closed);
    await settled("the slot is free", async () => (await held()) === 0);
  });

  it("is free when the promise of its handler settles, and a rejection is reported", async () => {
    const warning = vi.spyOn(process, "emitWarning").mockReturnValue();
    onTestFinished(() => warning.mockRestore());
    const { url } = await serve({ limiter: slots }, async (_request, response) => {
      await once(response, "close");
      throw new Error("on purpose");
    });
    const disconnect = await send(url);
    await settled("the request is held", async () => (await held()) === 1);
    disconnect();
    await settled("the slot is free", async () => (await held()) === 0);
    expect(warning.mock.calls.map(([text]) => text)).toEqual([
      expect.stringContaining("A handler rejected after its client had disconnected: Error: on purpose."),
    ]);
  });

  it("leaves the rejection of a handler whose client stays to the application", async () => {
    const { url } = await serve({ limiter: slots }, (_request, response) => {
      const work = Promise.reject(new Error("on purpose"));
      // Handled here. Vitest fails if it is reported as unhandled.
      work.catch(() => response.end("failed"));
      return work as never;
    });
    expect(await (await fetch(url)).text()).toBe("failed");
  });

  it("is free when a client disconnects while a leaky bucket delays its request, whose handler does not run", async () => {
    let handled = 0;
    const store = memoryStore();
    const delays = createLimiter({ store, policy: "1/m queue 5" });
    const both = createLimiter({ store, policy: concurrency(5, { leaseMs: "2s" }) });
    const { url } = await serve(
      { limits: [{ limiter: delays }, { limiter: both }], maxDelayMs: 300_000, key: () => "d" },
      () => {
        handled++;
      },
    );
    const disconnects = [await send(url), await send(url)];
    await settled("both requests are held", async () => ((await both.peek("d")).held ?? 0) === 2);
    await settled("the first one runs", () => handled === 1);
    for (const disconnect of disconnects) disconnect();
    await settled("the slot of the delayed one is free", async () => ((await both.peek("d")).held ?? 0) === 1);
    expect(handled).toBe(1);
  });

  it("works on responses without a connection, as serverless adapters and mocks have", async () => {
    const { EventEmitter } = await import("node:events");
    const response = Object.assign(new EventEmitter(), {
      req: { socket: { remoteAddress: "192.0.2.1" } },
      writableEnded: false,
      headersSent: false,
      setHeader() {},
      getHeader() {},
      writeHead() {},
      end() {
        Object.assign(response, { writableEnded: true, headersSent: true });
        response.emit("finish");
      },
    });
    const limited = rateLimit({ limiter: slots, key: () => "s" })((_request, response) => void response.end("ok"));
    limited({ method: "GET", url: "/", headers: {}, socket: {} } as never, response as never);
    await settled("the slot is free", async () => ((await slots.peek("s")).held ?? 0) === 0);
    expect(response.writableEnded).toBe(true);
  });

  it("is kept for a minute if the handler never ends, and renewed meanwhile", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    let closed = false;
    const { url } = await serve({ limiter: slots }, (_request, response) => {
      response.on("close", () => (closed = true));
    });
    const disconnect = await send(url);
    while ((await held()) === 0) await nextTurn();
    disconnect();
    while (!closed) await nextTurn();
    vi.advanceTimersByTime(59_999);
    expect(await held()).toBe(1);
    vi.advanceTimersByTime(1);
    expect(await held()).toBe(0);
  });
});

describe("a request body that nobody reads", () => {
  /** The beginning of a request with a body. */
  const upload = (sent: number, length = 3e6) =>
    `POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n${"x".repeat(sent)}`;
  const turns = async () => {
    for (let i = 0; i < 50; i++) await nextTurn();
  };
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "setTimeout", "clearTimeout"] }));

  it("is complete for a handler that reads it later", async () => {
    let read: (() => void) | undefined;
    let isPaused = () => false;
    const { url } = await serve({ policy: concurrency(5, { leaseMs: "2s" }) }, async (request, response) => {
      isPaused = () => request.socket.isPaused();
      await new Promise<void>((resolve) => (read = resolve));
      const hash = createHash("sha256");
      for await (const chunk of request) hash.update(chunk);
      response.end(hash.digest("hex"));
    });
    const body = randomBytes(2e6);
    const response = fetch(url, { method: "POST", body });
    while (!isPaused()) await nextTurn();
    for (let i = 0; i < 3; i++) {
      vi.advanceTimersByTime(1000);
      await turns();
    }
    read?.();
    expect(await (await response).text()).toBe(createHash("sha256").update(body).digest("hex"));
  });

  it("keeps a slot for a minute and its lease, if it is too long to see a disconnect", async () => {
    const clock = fakeClock();
    const slots = memoryRateLimiter(concurrency(5, { leaseMs: "2s" }), { clock });
    const held = async () => (await slots.peek("k")).held ?? 0;
    const { url } = await serve({ limiter: slots }, () => {});
    const disconnect = await send(url, upload(2e6));
    while ((await held()) === 0) await nextTurn();
    disconnect();
    const wait = async (seconds: number) => {
      for (let i = 0; i < seconds; i++) {
        clock.advance(1000);
        vi.advanceTimersByTime(1000);
        await turns();
      }
    };
    await wait(60);
    expect(await held()).toBe(1);
    // One chunk is read each second, until the request has the most that is read ahead.
    await wait(15);
    expect(await held()).toBe(0);
  });
});

describe("HTTP/2", () => {
  /** Resets streams with NO_ERROR while their responses wait for flow control, of which Node emits no event. */
  it.each(["ends its response", "leaves its response open"])("frees the slots of a handler that %s", async (what) => {
    const slots = memoryRateLimiter(concurrency(5, { leaseMs: "2s" }));
    const limited = rateLimit({ limiter: slots, key: () => "k" })((_request, response) => {
      response.write("x".repeat(2e6));
      if (what === "ends its response") response.end();
      else setTimeout(() => response.end(), 50);
    });
    const server = createServer((request, response) => limited(request as never, response as never));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    onTestFinished(() => {
      client.destroy();
      server.close();
    });
    for (let i = 0; i < 5; i++) {
      const request = client.request({ ":path": "/", ":method": "POST" });
      request.on("error", () => {}).write("a body that is not read".repeat(10_000));
      await once(request, "response");
      request.close(constants.NGHTTP2_NO_ERROR);
    }
    await settled("all slots are free", async () => ((await slots.peek("k")).held ?? 0) === 0);
  });
});

describe("a held amount of sluice/fetch", () => {
  const body = (settle: (tokens: number) => void, work: Promise<void>) =>
    new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new Uint8Array(1));
        // Goes on after the reader has cancelled, as a model does.
        void work.then(() => settle(40_000));
      },
    });

  it("is charged by the cost that a stream reports after its reader has cancelled", async () => {
    const limiter = memoryRateLimiter(tokenBucket({ capacity: 100_000, tokensPerSecond: "1/d" }));
    let finish = () => {};
    const work = new Promise<void>((resolve) => (finish = resolve));
    const handle = limitFetch({ limiter, key: () => "k", hold: { estimate: 400 } })(
      (request) => new Response(body((tokens) => fetchRateLimit(request)?.settle?.(tokens), work)),
    );
    const response = await handle(new Request("https://example.com/"));
    await response.body?.cancel();
    expect((await limiter.peek("k")).remaining).toBe(99_600);
    finish();
    await settled("the cost is charged", async () => (await limiter.peek("k")).remaining === 60_000);
  });

  it("is charged by the estimate a minute after a disconnect without a report", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const limiter = memoryRateLimiter(tokenBucket({ capacity: 1000, tokensPerSecond: "1/d" }));
    const handle = limitFetch({ limiter, key: () => "k", hold: { estimate: 400 } })(
      () => new Response(body(() => {}, new Promise(() => {}))),
    );
    const response = await handle(new Request("https://example.com/"));
    await response.body?.cancel();
    expect(await limiter.peek("k")).toMatchObject({ remaining: 600, held: 400 });
    vi.advanceTimersByTime(60_000);
    await nextTurn();
    const { remaining, held } = await limiter.peek("k");
    expect([remaining, held]).toEqual([600, undefined]);
  });
});

it("a slot of React Router, which ends an aborted request before its loader, ends with its lease", async () => {
  const clock = fakeClock();
  const slots = memoryRateLimiter(concurrency(1, { leaseMs: "5s" }), { clock });
  const middleware = limitReactRouter({ limiter: slots, key: () => "k" }) as unknown as (
    args: object,
    next: () => Promise<Response>,
  ) => Promise<Response>;
  const client = new AbortController();
  const request = new Request("https://example.com/", { signal: client.signal });
  const next = async (): Promise<Response> => {
    await once(client.signal, "abort");
    throw new Error("The operation was aborted");
  };
  const response = middleware({ request, context: {}, params: {} }, next);
  client.abort();
  await expect(response).rejects.toThrow("aborted");
  clock.advance(4999);
  expect((await hold(slots, "k")).allowed).toBe(false);
  clock.advance(1);
  expect((await hold(slots, "k")).allowed).toBe(true);
});

it("pipelined requests of Hono free their slots if their handlers never return", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const slots = memoryRateLimiter(concurrency(5, { leaseMs: "2s" }));
  const app = new Hono();
  app.use(limitHono({ limiter: slots, key: () => "k" }));
  app.get("/", () => new Promise(() => {}));
  const server = serveHono({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const disconnect = await send(`http://127.0.0.1:${port}`, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5));
  while ((await slots.peek("k")).held !== 5) await nextTurn();
  disconnect();
  while (!(await new Promise<boolean>((resolve) => server.getConnections((_, count) => resolve(count === 0))))) {
    await nextTurn();
  }
  for (let i = 0; i < 20; i++) await nextTurn();
  vi.advanceTimersByTime(60_000);
  await nextTurn();
  expect((await slots.peek("k")).held ?? 0).toBe(0);
});

it("a lease of rules ends with the handler, and an amount beside it when its cost is reported", async () => {
  const rules = defineRules(
    {
      rules: [{ name: "chat", match: "/", limits: { ip: ["3 concurrent", "1000/h of tokens"] }, hold: "5m" }],
      fallback: { limits: { ip: "9/s" } },
    },
    {},
  );
  let closed = 0;
  const handler = rateLimit({ rules, facts: { tokens: () => 100 } })((_request, response) => {
    response.once("close", () => {
      closed++;
      response.end();
    });
  });
  const server = await listen(handler);
  onTestFinished(server.close);
  const disconnects = [await send(server.url), await send(server.url), await send(server.url)];
  const open = async (): Promise<boolean> => {
    const decision = await rules.hold({ method: "GET", path: "/", ip: "127.0.0.1", facts: { tokens: 1 } });
    if (decision.allowed) await decision.hold.cancel();
    return decision.allowed;
  };
  await settled("three requests are in flight", async () => !(await open()));
  for (const disconnect of disconnects) disconnect();
  await settled("all are closed", () => closed === 3);
  await settled("their slots are free", open);
});

it("a refund of rules on React Router is made if the client disconnects", async () => {
  const rules = defineRules({
    rules: [{ name: "login", match: "/", limits: { global: "2/d" }, refundIf: "reported" }],
    fallback: "unlimited",
  });
  const middleware = limitReactRouter({ rules, identity: { unidentified: "share" } }) as unknown as (
    args: object,
    next: () => Promise<Response>,
  ) => Promise<Response>;
  for (let i = 0; i < 5; i++) {
    const client = new AbortController();
    const context = {};
    const request = new Request("https://example.com/", { signal: client.signal });
    let isHandled = false;
    const response = middleware({ request, context, params: {} }, async () => {
      isHandled = true;
      reactRouterDecision({ context })?.succeeded?.();
      client.abort();
      throw new Error("The operation was aborted");
    });
    await expect(response).rejects.toThrow("aborted");
    expect(isHandled).toBe(true);
  }
});

describe("idempotent", () => {
  const pay = (url: string) =>
    fetch(url, { method: "POST", headers: { "Idempotency-Key": "once" } }).then(async (response) => ({
      status: response.status,
      replayed: response.headers.get("Idempotent-Replayed"),
    }));

  it("runs a key once if a waiting retry disconnects while its claim is on its way to a slow store", async () => {
    const store = memoryIdempotencyStore();
    const begun: (() => void)[] = [];
    let isSlow = false;
    let claims = 0;
    // Claims of retries wait until the test lets them go.
    const slow = new Proxy(store, {
      get(target, name) {
        const member = target[name as keyof typeof target] as unknown;
        if (typeof member !== "function") return member;
        return async (...args: unknown[]) => {
          const result = await member.apply(target, args);
          if (name === "begin") claims++;
          if (name === "begin" && isSlow) await new Promise<void>((resolve) => begun.push(resolve));
          return result;
        };
      },
    });
    const ends: (() => void)[] = [];
    const seen = { runs: 0, active: 0, most: 0 };
    const handler: NodeHandler = (_request, response) => {
      seen.runs++;
      seen.most = Math.max(seen.most, ++seen.active);
      ends.push(() => {
        seen.active--;
        response.statusCode = seen.runs === 1 ? 503 : 200;
        response.end("paid");
      });
    };
    const server = await listen(
      idempotent({ store: slow, scope: () => "ada", wait: "20s", deadlineMs: "20s" })(handler),
    );
    onTestFinished(server.close);
    const post = "POST / HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: once\r\nContent-Length: 0\r\n\r\n";
    const first = pay(server.url);
    await settled("the first request runs", () => seen.runs === 1);
    const leave = await send(server.url, post);
    await settled("the first retry waits", () => claims > 1);
    const before = claims;
    const second = pay(server.url);
    await settled("the second retry waits", () => claims > before + 1);
    isSlow = true;
    // 503 is not stored: its claim is released, and the retries are polled.
    ends.shift()?.();
    await first;
    await settled("a claim is on its way", () => begun.length > 0);
    leave();
    for (let i = 0; i < 20; i++) await nextTurn();
    const stop = setInterval(() => begun.shift()?.(), 30);
    onTestFinished(() => clearInterval(stop));
    await settled("the second request runs", () => seen.runs === 2);
    const third = pay(server.url);
    for (let i = 0; i < 10; i++) await new Promise((resolve) => setTimeout(resolve, 20));
    for (const end of ends) end();
    expect((await second).status).toBe(200);
    expect((await third).status).toBe(200);
    expect(seen).toMatchObject({ runs: 2, most: 1 });
  });

  it("does not store the error of a rateLimit behind it", async () => {
    const warning = vi.spyOn(process, "emitWarning").mockReturnValue();
    onTestFinished(() => warning.mockRestore());
    let isBroken = true;
    const limit = rateLimit({
      policy: "9/m",
      key() {
        if (isBroken) throw new TypeError("on purpose");
        return "k";
      },
    });
    const handled: number[] = [];
    const handler = limit((request, response) => {
      handled.push(getRateLimit(request)?.remaining ?? -1);
      response.end("paid");
    });
    // 500 is stored by default, because the effect may have happened: not here.
    const server = await listen(idempotent({ store: memoryIdempotencyStore(), scope: () => "ada" })(handler));
    onTestFinished(server.close);
    expect(await pay(server.url)).toEqual({ status: 500, replayed: null });
    isBroken = false;
    expect(await pay(server.url)).toEqual({ status: 200, replayed: null });
    expect(await pay(server.url)).toEqual({ status: 200, replayed: "true" });
    expect(handled).toEqual([8]);
  });
});

it("a client that disconnects while a fact is fetched is charged, and its request is not an error", async () => {
  const limiter = memoryRateLimiter(tokenBucket({ capacity: 9, tokensPerSecond: "1/d" }));
  const errors: unknown[] = [];
  let isAsked = false;
  let proceed = () => {};
  const server = await listen(
    rateLimit({
      limiter,
      onError: (error) => void errors.push(error),
      skip: () => {
        isAsked = true;
        return new Promise((resolve) => (proceed = () => resolve(false)));
      },
    })((_request, response) => void response.end()),
  );
  onTestFinished(server.close);
  const disconnect = await send(server.url);
  await settled("the request has arrived", () => isAsked);
  disconnect();
  for (let i = 0; i < 20; i++) await nextTurn();
  proceed();
  await settled("the request is charged", async () => (await limiter.peek("ip:127.0.0.1")).remaining === 8);
  expect(errors).toEqual([]);
});
