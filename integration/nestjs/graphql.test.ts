/** `sluice/nestjs` with resolvers of GraphQL: Apollo on Express. */
import "reflect-metadata";
import { ApolloDriver, type ApolloDriverConfig } from "@nestjs/apollo";
import { type ExecutionContext, UseGuards } from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import { Args, GraphQLModule, Mutation, Query, Resolver } from "@nestjs/graphql";
import {
  RateLimit,
  RateLimitGuard,
  RateLimitModule,
  type RateLimitModuleOptions,
  rateLimitGuard,
  SkipRateLimit,
} from "sluice/nestjs";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { served } from "./app.ts";

const slow = (capacity: number, name: string) => ({ capacity, tokensPerSecond: `${capacity}/d` as const, name });

@Resolver()
class GreetingResolver {
  @Query("hello") hello(@Args("name") name: string) {
    return `hello ${name}`;
  }
  @Query("twice") @UseGuards(RateLimitGuard) twice() {
    return "twice";
  }
  @Query("free") @SkipRateLimit() free() {
    return "free";
  }
  @Mutation("send") @RateLimit({ policy: slow(1, "send") }) send() {
    return "sent";
  }
}

const typeDefs =
  "type Query { hello(name: String!): String twice: String free: String } type Mutation { send: String }";

async function started(options: RateLimitModuleOptions, more: Partial<ApolloDriverConfig> = {}) {
  const { url, close } = await served("Express", {
    imports: [
      RateLimitModule.forRoot(options),
      GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, typeDefs, ...more }),
    ],
    providers: [GreetingResolver, { provide: APP_GUARD, useClass: RateLimitGuard }],
  });
  onTestFinished(close);
  return async (query: string) => {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(new URL("/graphql", url), {
      method: "POST",
      headers,
      body: JSON.stringify({ query }),
    });
    const { data, errors = [] } = (await response.json()) as {
      data: unknown;
      errors?: { message: string; path: string[]; extensions: Record<string, unknown> }[];
    };
    return { status: response.status, header: (name: string) => response.headers.get(name), data, errors };
  };
}

describe("NestJS 12 with GraphQL", () => {
  it("counts every field of a query, so aliases are no way around a limit", async () => {
    const send = await started({ policy: slow(3, "api") });
    const first = await send('{ a: hello(name: "a") b: hello(name: "b") }');
    expect([first.status, first.data]).toEqual([200, { a: "hello a", b: "hello b" }]);
    // One item, with what the last field has left.
    expect(first.header("RateLimit")).toMatch(/^"api";r=1;t=\d+$/);
    const second = await send('{ a: hello(name: "a") b: hello(name: "b") free }');
    expect(second.data).toEqual({ a: "hello a", b: null, free: "free" });
    const [error] = second.errors;
    expect(error?.path).toEqual(["b"]);
    expect(error?.message).toBe("Limit of 3 requests per 86400 s reached.");
    expect(error?.extensions).toMatchObject({ code: "TOO_MANY_REQUESTS", policy: "api" });
    expect(error?.extensions.retryAfterMs).toBeGreaterThan(28_000_000);
    expect([second.status, second.header("Retry-After")]).toEqual([200, "28800"]);
  });

  it("counts a field once if the guard is bound to the app and to the resolver", async () => {
    const send = await started({ policy: slow(3, "api") });
    const { data, header } = await send("{ a: twice b: twice }");
    expect(data).toEqual({ a: "twice", b: "twice" });
    expect(header("RateLimit")).toMatch(/^"api";r=1;/);
  });

  it("limits decorated resolvers by their own limits", async () => {
    const send = await started({ policy: slow(1, "api") });
    expect((await send("mutation { send }")).data).toEqual({ send: "sent" });
    expect((await send("mutation { send }")).errors).toHaveLength(1);
    expect((await send('{ hello(name: "x") }')).data).toEqual({ hello: "hello x" });
  });

  it("finds the request in a context of the app's own", async () => {
    const context = ({ req, res }: { req: object; res: object }) => ({ req, res, tenant: "one" });
    const send = await started({ policy: slow(1, "api") }, { context });
    expect((await send('{ hello(name: "x") }')).data).toEqual({ hello: "hello x" });
    expect((await send('{ hello(name: "x") }')).data).toEqual({ hello: null });
  });

  it("explains what to do if the context has no response, as with Fastify", async () => {
    const guard = rateLimitGuard({ policy: slow(1, "api") });
    const context = {
      getType: () => "graphql",
      getArgs: () => [{}, {}, { req: {} }, {}],
    } as unknown as ExecutionContext;
    await expect(guard.canActivate(context)).rejects.toThrow("Return { req, res } from the option context");
  });

  it("lets subscriptions pass, with a warning", async () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => warned.mockRestore());
    const guard = rateLimitGuard({ policy: slow(1, "api") });
    const info = { operation: { operation: "subscription" } };
    const context = { getType: () => "graphql", getArgs: () => [{}, {}, {}, info] } as unknown as ExecutionContext;
    for (let i = 0; i < 3; i++) expect(await guard.canActivate(context)).toBe(true);
    expect(String(warned.mock.calls)).toContain("does not limit GraphQL subscriptions");
    expect(warned).toHaveBeenCalledTimes(1);
  });
});
