/** `sluice/trpc` with real HTTP adapters and clients of tRPC 11. */
import { TRPCClientError } from "@trpc/client";
import { initTRPC, TRPCError } from "@trpc/server";
import { observable } from "@trpc/server/observable";
import { concurrency, createLimiter, SluiceError } from "sluice";
import { defineRules } from "sluice/rules";
import { RateLimitError, rateLimit, type TrpcRateLimitOptions } from "sluice/trpc";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "../../test/servers/until.js";
import { onRedis } from "../on-redis.ts";
import { adapters, type Context, serve, t } from "./adapters.ts";

const slow = (capacity: number, name = "api") => ({ capacity, tokensPerSecond: `${capacity}/d` as const, name });
const byUser = ({ ctx }: { ctx: Context }) => ctx.user;

/** A router whose procedures have one limit. */
function routerWith(options: TrpcRateLimitOptions<Context>, calls: unknown[] = []) {
  const limited = t.procedure.use(rateLimit<Context, string>(options));
  const echo = limited.input((value) => value as number);
  return t.router({
    echo: echo.query(({ input, ctx }) => {
      calls.push(input);
      return { input, remaining: ctx.rateLimit?.remaining, user: ctx.user };
    }),
    post: t.router({ create: limited.mutation(() => "created") }),
    fails: limited.query(() => {
      throw new TRPCError({ code: "NOT_FOUND", message: "on purpose" });
    }),
  });
}

const failure = async (promise: Promise<unknown>) => {
  const error = await promise.then(
    (value) => expect.unreachable(`resolved with ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(TRPCClientError);
  return error as TRPCClientError<ReturnType<typeof routerWith>>;
};

describe.each(Object.keys(adapters))("tRPC 11, %s adapter", (adapter) => {
  it("allows calls up to the limit, then fails with TOO_MANY_REQUESTS and when to retry", async () => {
    const { one, heads } = await serve(adapter, routerWith({ policy: slow(2), key: byUser }));
    expect(await one.echo.query(1)).toEqual({ input: 1, remaining: 1, user: "ada" });
    expect(await one.echo.query(2)).toMatchObject({ remaining: 0 });
    const { message, data } = await failure(one.echo.query(3));
    expect(message).toBe("Limit of 2 requests per 86400 s reached.");
    expect(data).toMatchObject({ code: "TOO_MANY_REQUESTS", httpStatus: 429, path: "echo", policy: "api" });
    expect(data?.retryAfterMs).toBeGreaterThan(43_000_000);
    expect(heads.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(heads[0]?.headers.get("RateLimit-Policy")).toBe('"api";q=2;w=86400');
    expect(heads[0]?.headers.get("RateLimit")).toMatch(/^"api";r=1;t=\d+$/);
    expect(heads[2]?.headers.get("RateLimit")).toMatch(/^"api";r=0;t=\d+$/);
    expect(heads[2]?.headers.get("Retry-After")).toBe("43200");
    expect(heads[2]?.headers.get("Content-Type")).toMatch(/^application\/json/);
  });

  it.each(["batch", "stream"] as const)("counts every call of a %s", async (link) => {
    const calls: number[] = [];
    const { [link]: client, heads } = await serve(adapter, routerWith({ policy: slow(3), key: byUser }, calls));
    const results = await Promise.allSettled([1, 2, 3, 4, 5].map((i) => client.echo.query(i)));
    expect(results.map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
      "fulfilled",
      "rejected",
      "rejected",
    ]);
    expect(calls).toEqual([1, 2, 3]);
    expect(heads).toHaveLength(1);
    if (link === "stream") return;
    expect(heads[0]?.status).toBe(207);
    // One item for the whole batch.
    expect(heads[0]?.headers.get("RateLimit")).toMatch(/^"api";r=0;t=\d+$/);
    expect(heads[0]?.headers.get("RateLimit-Policy")).toBe('"api";q=3;w=86400');
  });

  it("lists the policies of several middleware once for each", async () => {
    const limited = t.procedure
      .use(rateLimit({ policy: slow(9, "outer"), key: byUser }))
      .use(rateLimit({ policy: slow(5, "inner"), key: byUser }));
    const { batch, heads } = await serve(adapter, t.router({ get: limited.query(({ ctx }) => ctx.rateLimit?.policy) }));
    expect(await Promise.all([batch.get.query(), batch.get.query()])).toEqual(["inner", "inner"]);
    const policies = heads[0]?.headers.get("RateLimit-Policy")?.split(", ").sort();
    expect(policies).toEqual(['"inner";q=5;w=86400', '"outer";q=9;w=86400']);
    expect(
      heads[0]?.headers
        .get("RateLimit")
        ?.split(", ")
        .map((item) => item.split(";t=")[0])
        .sort(),
    ).toEqual(['"inner";r=3', '"outer";r=7']);
  });

  it("matches rules by the path of the procedure, and the method by its type", async () => {
    const rules = defineRules({
      version: 1,
      rules: [
        { name: "create", match: "POST /post.create", limits: { user: "1/d", global: "100/d" } },
        { name: "rest", match: "GET /*", limits: { global: "2/d" } },
      ],
      fallback: "unlimited",
    });
    const options = { rules, facts: { user: byUser } } as TrpcRateLimitOptions<Context>;
    const { one } = await serve(adapter, routerWith(options));
    expect(await one.post.create.mutate()).toBe("created");
    const { data } = await failure(one.post.create.mutate());
    expect(data).toMatchObject({ code: "TOO_MANY_REQUESTS", rule: "create" });
    expect(await one.echo.query(1)).toMatchObject({ input: 1 });
    await one.echo.query(2);
    expect((await failure(one.echo.query(3))).data?.rule).toBe("rest");
  });

  it("refunds calls that failed, and reports their error", async () => {
    const outcomes: unknown[] = [];
    const { one } = await serve(adapter, routerWith({ policy: slow(1), key: byUser, refundIf: "failed" }));
    for (let i = 0; i < 3; i++) expect((await failure(one.fails.query())).data?.code).toBe("NOT_FOUND");
    expect(await one.echo.query(1)).toMatchObject({ remaining: 0 });
    expect((await failure(one.fails.query())).data?.code).toBe("TOO_MANY_REQUESTS");
    const refundIf: TrpcRateLimitOptions<Context>["refundIf"] = (outcome) => {
      outcomes.push(outcome);
      return false;
    };
    const other = await serve(adapter, routerWith({ policy: slow(9), key: byUser, refundIf }));
    await failure(other.one.fails.query());
    await other.one.echo.query(1);
    expect(outcomes).toEqual([
      { status: undefined, error: expect.objectContaining({ code: "NOT_FOUND" }), aborted: false },
      { status: 200, aborted: false },
    ]);
  });

  it("holds a concurrency limit until the call has returned", async () => {
    let release = () => {};
    const limiter = createLimiter({ policy: concurrency(1) });
    const limited = t.procedure.use(rateLimit({ limiter, key: byUser }));
    const waiting = new Promise<void>((resolve) => (release = resolve));
    const router = t.router({ wait: limited.query(() => waiting), quick: limited.query(() => "quick") });
    const { one } = await serve(adapter, router);
    const first = one.wait.query();
    await until("the call is not held", async () => ((await limiter.peek("ada")).held === 1 ? undefined : "no hold"));
    expect((await failure(one.quick.query())).data?.code).toBe("TOO_MANY_REQUESTS");
    release();
    await first;
    expect(await one.quick.query()).toBe("quick");
  });

  it.each(["iterable", "observable"] as const)(
    "holds a concurrency limit while a subscription is open: %s",
    async (kind) => {
      const limiter = createLimiter({ policy: concurrency(1) });
      const limited = t.procedure.use(rateLimit({ limiter, key: () => "k" }));
      const router = t.router({
        iterable: limited.subscription(async function* ({ signal }) {
          yield "first";
          await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve()));
        }),
        observable: limited.subscription(() => observable<string>((emit) => emit.next("first"))),
        short: limited.subscription(async function* () {
          yield "only";
        }),
      });
      const { url } = await serve(adapter, router);
      const held = (count: number | undefined) =>
        until(`held is not ${count}`, async () => {
          const { held } = await limiter.peek("k");
          return held === count ? undefined : `${held}`;
        });
      // Subscriptions are server-sent events. Node 20 has no EventSource.
      const open = (path: string, signal?: AbortSignal) =>
        fetch(new URL(path, url), { headers: { accept: "text/event-stream" }, ...(signal && { signal }) });
      expect(await (await open("short")).text()).toContain("only");
      await held(undefined);
      const abort = new AbortController();
      const response = await open(kind, abort.signal);
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      while (!text.includes("first")) text += (await reader?.read())?.value ?? "";
      await held(1);
      const denied = await open(kind);
      expect(await denied.text()).toContain("TOO_MANY_REQUESTS");
      abort.abort();
      await held(undefined);
    },
  );

  it("fails with SERVICE_UNAVAILABLE if the store is unavailable and the limiter fails closed", async () => {
    const redis = await onRedis();
    onTestFinished(redis.close);
    const limiter = redis.limiter(slow(5, "redis"), { onStoreError: "closed", deadlineMs: 200 });
    const { one, heads } = await serve(adapter, routerWith({ limiter, key: byUser }));
    expect(await one.echo.query(1)).toMatchObject({ remaining: 4 });
    await redis.server.kill();
    const { data } = await failure(one.echo.query(2));
    expect(data).toMatchObject({ code: "SERVICE_UNAVAILABLE", httpStatus: 503 });
    expect(heads[1]?.headers.get("RateLimit")).toBeNull();
    expect(heads[1]?.headers.get("Retry-After")).toMatch(/^[1-9]/);
  });
});

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
