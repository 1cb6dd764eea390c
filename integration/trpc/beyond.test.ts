/** `sluice/trpc` beyond HTTP adapters: identity, callbacks, errors and server-side callers. */
import { connect } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { initTRPC, TRPCError } from "@trpc/server";
import { concurrency, createLimiter, SluiceError } from "sluice";
import { RateLimitError, rateLimit, type TrpcRateLimitOptions } from "sluice/trpc";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type Context, serve, t } from "./adapters.ts";
import { byUser, routerWith, slow } from "./router.ts";

describe("tRPC 11, beyond adapters", () => {
  const create = t.createCallerFactory;
  const context = { user: "ada" } as Context;

  it("identifies clients by the socket of ctx.req, and by identity", async () => {
    const { url, one } = await serve("standalone", routerWith({ policy: slow(1) }));
    expect(await one.echo.query(1)).toMatchObject({ remaining: 0 });
    expect((await fetch(new URL("echo?input=1", url))).status).toBe(429);
    const identity = { trustedProxies: ["127.0.0.0/8"] };
    const proxied = await serve("standalone", routerWith({ policy: slow(1), identity }));
    const from = async (address: string) =>
      (await fetch(new URL("echo?input=1", proxied.url), { headers: { "X-Forwarded-For": address } })).status;
    expect([await from("203.0.113.1"), await from("203.0.113.1"), await from("203.0.113.2")]).toEqual([200, 429, 200]);
    // Deno, with its info in the context of the fetch adapter.
    const caller = (hostname: string) =>
      create(router)({
        ...context,
        req: new Request("http://localhost/"),
        info: { remoteAddr: { hostname } },
      } as Context);
    const router = routerWith({ policy: slow(1) });
    expect(await caller("203.0.113.1").echo(1)).toMatchObject({ remaining: 0 });
    await expect(caller("203.0.113.1").echo(1)).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" });
    expect(await caller("203.0.113.2").echo(1)).toMatchObject({ remaining: 0 });
  });

  it("requires a request in the context, or key, and sends no details to clients", async () => {
    const caller = create(routerWith({ policy: slow(1) }))(context);
    const error = await caller.echo(1).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(TRPCError);
    expect(error).toMatchObject({ code: "INTERNAL_SERVER_ERROR", message: "The call could not be checked." });
    const { cause } = error as TRPCError;
    expect(cause).toBeInstanceOf(SluiceError);
    expect(cause?.message).toContain("Return { req, res } of the adapter from createContext, or set key.");
    const keyed = create(routerWith({ policy: slow(1), key: byUser }))(context);
    expect(await keyed.echo(1)).toMatchObject({ remaining: 0 });
    await expect(keyed.echo(2)).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS", cause: expect.any(RateLimitError) });
  });

  it("does not make a delayed call whose client has disconnected", async () => {
    const calls: unknown[] = [];
    const outcomes: unknown[] = [];
    const router = routerWith(
      {
        policy: { algorithm: "leaky-bucket", capacity: 2, leaksPerSecond: "1/m" },
        maxDelayMs: 3_600_000,
        key: byUser,
        refundIf: (outcome) => outcomes.push(outcome) === 0,
      },
      calls,
    );
    const client = new AbortController();
    const caller = create(router)(context, { signal: client.signal });
    await caller.echo(1);
    const delayed = caller.echo(2);
    client.abort();
    await expect(delayed).rejects.toMatchObject({ code: "CLIENT_CLOSED_REQUEST" });
    expect([calls, outcomes[1]]).toEqual([[1], { status: undefined, aborted: true }]);
  });

  it("fails with CLIENT_CLOSED_REQUEST if the client has disconnected, whose address is then unknown", async () => {
    const errors: unknown[] = [];
    const router = routerWith({ policy: slow(1), onError: (error) => void errors.push(error) });
    const gone = { req: { headers: {}, socket: {} } } as unknown as Context;
    const caller = create(router)(gone, { signal: AbortSignal.abort() });
    await expect(caller.echo(1)).rejects.toMatchObject({ code: "CLIENT_CLOSED_REQUEST" });
    expect(errors).toEqual([]);
  });

  it.each(["pipelined", "not read"])("frees the slots of calls that never end: requests that are %s", async (how) => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const limiter = createLimiter({ policy: concurrency(5, { leaseMs: "30s" }) });
    const limited = t.procedure.use(rateLimit({ limiter, key: () => "k" }));
    const { url } = await serve("standalone", t.router({ never: limited.query(() => new Promise(() => {})) }));
    const held = async () => (await limiter.peek("k")).held ?? 0;
    const socket = connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
    const head = "GET /never HTTP/1.1\r\nHost: localhost\r\n";
    if (how === "pipelined") socket.write(`${head}\r\n`.repeat(5));
    else socket.write(`${head}Content-Length: 3000000\r\n\r\n${"x".repeat(300_000)}`);
    while ((await held()) !== (how === "pipelined" ? 5 : 1)) await nextTurn();
    socket.destroy();
    // A chunk of the body is read ahead each second, and the minute begins when the server notices.
    for (let second = 0; second < 75; second++) {
      vi.advanceTimersByTime(1000);
      for (let i = 0; i < 50; i++) await nextTurn();
    }
    expect(await held()).toBe(0);
  });

  it("passes the path, the type and the input to callbacks", async () => {
    const seen: unknown[] = [];
    const caller = create(
      routerWith({
        policy: slow(10),
        key: async ({ ctx, path, type, getRawInput }) => {
          seen.push([path, type, await getRawInput()]);
          return ctx.user;
        },
        cost: ({ path }) => (path === "post.create" ? 4 : 1),
      }),
    )(context);
    expect(await caller.echo(7)).toMatchObject({ remaining: 9 });
    await caller.post.create();
    expect(await caller.echo(8)).toMatchObject({ remaining: 4 });
    expect(seen).toEqual([
      ["echo", "query", 7],
      ["post.create", "mutation", undefined],
      ["echo", "query", 8],
    ]);
  });

  it("throws the message or the error of onLimited", async () => {
    const limitedBy = (onLimited: NonNullable<TrpcRateLimitOptions<Context>["onLimited"]>) =>
      create(routerWith({ policy: slow(1), key: byUser, onLimited }))(context);
    for (const [onLimited, expected] of [
      [() => "slow down", { code: "TOO_MANY_REQUESTS", message: "slow down" }],
      [async () => new TRPCError({ code: "FORBIDDEN", message: "no" }), { code: "FORBIDDEN", message: "no" }],
      [() => undefined, { code: "TOO_MANY_REQUESTS", message: "Limit of 1 requests per 86400 s reached." }],
    ] as const) {
      const caller = limitedBy(onLimited);
      await caller.echo(1);
      await expect(caller.echo(2)).rejects.toMatchObject(expected);
    }
    const errors: unknown[] = [];
    const fails = () => {
      throw new Error("on purpose");
    };
    const onError = (error: unknown) => void errors.push(error);
    const caller = create(routerWith({ policy: slow(1), key: byUser, onLimited: fails, onError }))(context);
    await caller.echo(1);
    await expect(caller.echo(2)).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" });
    expect(errors).toEqual([new Error("on purpose")]);
  });

  it("follows onError, and rejects nothing in shadow mode", async () => {
    const key = () => {
      throw new Error("on purpose");
    };
    const call = (options: TrpcRateLimitOptions<Context>) => create(routerWith(options))(context).echo(1);
    await expect(call({ policy: slow(1), key })).rejects.toMatchObject({ message: "on purpose" });
    expect(await call({ policy: slow(1), key, onError: () => "allow" })).toMatchObject({ input: 1 });
    await expect(call({ policy: slow(1), key, onError: () => "deny" })).rejects.toMatchObject({
      code: "SERVICE_UNAVAILABLE",
    });
    const shadow = create(routerWith({ policy: slow(1), key: byUser, mode: "shadow" }))(context);
    for (let i = 0; i < 3; i++) expect(await shadow.echo(i)).toMatchObject({ input: i });
  });

  it("charges what a handler reports", async () => {
    const limiter = createLimiter({ policy: slow(10) });
    const limited = t.procedure.use(rateLimit({ limiter, key: byUser, hold: { estimate: 5 } }));
    const caller = create(t.router({ ask: limited.mutation(({ ctx }) => ctx.rateLimit?.settle?.(2)) }))(context);
    await caller.ask();
    expect((await limiter.peek("ada")).remaining).toBe(8);
  });

  it("is rejected in another framework", async () => {
    const limit = rateLimit({ policy: "1/s" }) as unknown as (...args: unknown[]) => Promise<unknown>;
    await expect(limit({ req: { raw: {} } }, () => {})).rejects.toThrow(
      'rateLimit from "sluice/trpc" was called by Hono. Import rateLimit from "sluice/hono"',
    );
  });

  it("works without a context", async () => {
    const plain = initTRPC.create();
    const get = plain.procedure.use(rateLimit({ policy: slow(1), key: () => "all" })).query(() => "ok");
    const caller = plain.createCallerFactory(plain.router({ get }))({});
    expect(await caller.get()).toBe("ok");
    await expect(caller.get()).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" });
  });
});
