/** `sluice/trpc` with real HTTP adapters and clients of tRPC 11. */
import { TRPCClientError } from "@trpc/client";
import { observable } from "@trpc/server/observable";
import { concurrency, createLimiter } from "sluice";
import { defineRules } from "sluice/rules";
import { rateLimit, type TrpcRateLimitOptions } from "sluice/trpc";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "../../test/servers/until.js";
import { onRedis } from "../on-redis.ts";
import { adapters, type Context, serve, t } from "./adapters.ts";
import { byUser, routerWith, slow } from "./router.ts";

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
