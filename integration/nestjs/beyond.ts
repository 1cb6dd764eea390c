/** Tests of the module, the guard and the decorators, for every version and platform of NestJS. */
import {
  type ArgumentsHost,
  Body,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Get,
  HttpCode,
  Inject,
  Injectable,
  Module,
  type ModuleMetadata,
  Post,
  UseFilters,
} from "@nestjs/common";
import { APP_FILTER, APP_GUARD } from "@nestjs/core";
import { Test } from "@nestjs/testing";
import { type RateLimiter, SluiceError } from "sluice";
import {
  type NestRateLimitOptions,
  RATE_LIMIT_OPTIONS,
  RateLimit,
  RateLimitException,
  RateLimitGuard,
  RateLimitModule,
  type RateLimitModuleOptions,
  type RateLimitOptionsFactory,
  rateLimitGuard,
} from "sluice/nestjs";
import { defineRules } from "sluice/rules";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { onRedis } from "../on-redis.ts";
import { sendRequest } from "../send-request.ts";
import { type Platform, served } from "./app.ts";
import { LimitedController, PlainController, SkippedController, SomeController, slow } from "./controllers.ts";

const GLOBAL_GUARD = { provide: APP_GUARD, useClass: RateLimitGuard };
export function beyondTheSuite(name: string, platform: Platform): void {
  const started = async (metadata: ModuleMetadata) => {
    const { url, close } = await served(platform, metadata);
    onTestFinished(close);
    return url;
  };
  const appOf = (options: RateLimitModuleOptions, ...controllers: NonNullable<ModuleMetadata["controllers"]>) =>
    started({ imports: [RateLimitModule.forRoot(options)], controllers, providers: [GLOBAL_GUARD] });
  const statuses = async (url: string, ...paths: string[]) => {
    const found: number[] = [];
    for (const path of paths) found.push((await sendRequest(url, path)).status);
    return found;
  };

  describe(`${name}, beyond the suite`, () => {
    it("limits all handlers together, and each decorated one by its own limits instead", async () => {
      const url = await appOf({ policy: slow(2, "app") }, PlainController, LimitedController, SkippedController);
      expect(await statuses(url, "/own", "/own")).toEqual([200, 429]);
      expect(await statuses(url, "/class/a", "/class/b", "/class/a")).toEqual([200, 200, 429]);
      expect(await statuses(url, "/class/own", "/class/own")).toEqual([200, 429]);
      expect(await statuses(url, "/skipped/limited", "/skipped/limited")).toEqual([200, 429]);
      expect(await statuses(url, "/free", "/class/free", "/skipped", "/skipped")).toEqual([200, 200, 200, 200]);
      // None of these was counted by the limit of the app.
      expect(await statuses(url, "/a", "/b", "/a", "/b")).toEqual([200, 200, 429, 429]);
    });

    it("charges the buckets of the app with the cost of a handler", async () => {
      const url = await appOf({ policy: slow(3, "app") }, PlainController);
      expect((await sendRequest(url, "/costly")).header("RateLimit")).toMatch(/^"app";r=1;/);
      expect(await statuses(url, "/costly", "/a", "/b")).toEqual([429, 200, 429]);
    });

    it("counts once if the guard is bound to the app and the handler, and adds the limits of another guard", async () => {
      const url = await appOf({ policy: slow(4, "app") }, PlainController);
      expect((await sendRequest(url, "/bound-twice")).header("RateLimit")).toMatch(/^"app";r=3;/);
      const { header } = await sendRequest(url, "/added");
      expect(header("RateLimit-Policy")).toBe('"added";q=1;w=86400, "app";q=4;w=86400');
      expect(await statuses(url, "/added")).toEqual([429]);
    });

    it("takes identity and headers of a decorated handler from the module, and not the other way round", async () => {
      const url = await appOf({ policy: slow(1, "app"), headers: "draft-6", key: () => "all" }, PlainController);
      const { header } = await sendRequest(url, "/own");
      expect([header("RateLimit-Limit"), header("RateLimit")]).toEqual(["1", undefined]);
    });

    it("limits only decorated handlers with global: false", async () => {
      const url = await appOf({ global: false }, SomeController);
      expect(await statuses(url, "/a", "/a", "/own", "/own")).toEqual([200, 200, 200, 429]);
      // Nothing says what to charge.
      await expect(appOf({ global: false }, PlainController)).rejects.toThrow("requires exactly one of policy");
    });

    it("limits by rules, whose facts are read from the request", async () => {
      const rules = defineRules({
        version: 1,
        rules: [{ name: "api", match: "/a", limits: { tenant: "1/d", global: "100/d" } }],
        fallback: "unlimited",
      });
      const facts = { tenant: (request: { headers: Record<string, string> }) => request.headers["x-tenant"] };
      const url = await appOf({ rules, facts }, SomeController);
      const as = async (tenant: string) => (await sendRequest(url, "/a", { headers: { "X-Tenant": tenant } })).status;
      expect([await as("one"), await as("one"), await as("two")]).toEqual([200, 429, 200]);
      // Its own limits replace the rules of the app.
      expect(await statuses(url, "/own", "/own")).toEqual([200, 429]);
    });

    it("rejects wrong options of a handler when the app starts", async () => {
      @Controller()
      class WrongController {
        @Get() @RateLimit({ policy: "fast" as "1/s" }) get() {}
      }
      await expect(appOf({ policy: "1/s" }, WrongController)).rejects.toThrow(SluiceError);
      await expect(appOf({} as never, PlainController)).rejects.toThrow("requires exactly one of policy");
      await expect(appOf({ policy: "1/s", global: "no" as never })).rejects.toThrow("global must be a boolean");
      expect(() => RateLimitModule.forRootAsync({})).toThrow("exactly one of useFactory, useClass and useExisting");
    });

    it("gets its options from providers: a limiter on Redis, a class, and a provider of another module", async () => {
      const redis = await onRedis();
      onTestFinished(redis.close);
      const LIMITER = "limiter";
      class RedisModule {}
      Module({
        providers: [{ provide: LIMITER, useFactory: async () => redis.limiter(slow(2, "redis")) }],
        exports: [LIMITER],
      })(RedisModule);

      @Injectable()
      class Options implements RateLimitOptionsFactory {
        readonly limiter: RateLimiter;
        constructor(@Inject(LIMITER) limiter: RateLimiter) {
          this.limiter = limiter;
        }
        createRateLimitOptions(): RateLimitModuleOptions {
          return { limiter: this.limiter };
        }
      }
      class OptionsModule {}
      Module({ imports: [RedisModule], providers: [Options], exports: [Options] })(OptionsModule);

      const asyncModules = [
        RateLimitModule.forRootAsync({
          imports: [RedisModule],
          inject: [LIMITER],
          useFactory: async (limiter: RateLimiter) => ({ limiter }),
        }),
        RateLimitModule.forRootAsync({ imports: [RedisModule], useClass: Options }),
        RateLimitModule.forRootAsync({ imports: [OptionsModule], useExisting: Options }),
      ];
      const found: number[] = [];
      for (const module of asyncModules) {
        const url = await started({ imports: [module], controllers: [PlainController], providers: [GLOBAL_GUARD] });
        found.push(...(await statuses(url, "/a")));
      }
      // All three have charged one bucket.
      expect(found).toEqual([200, 200, 429]);
    });

    it("throws an exception that filters of the app catch", async () => {
      const caught: RateLimitException[] = [];
      @Catch(RateLimitException)
      class LimitFilter implements ExceptionFilter<RateLimitException> {
        catch(exception: RateLimitException, host: ArgumentsHost) {
          caught.push(exception);
          const response = host.switchToHttp().getResponse();
          response.status(exception.getStatus()).header("Content-Type", "text/html").send("<p>Too fast.</p>");
        }
      }
      @Controller("filtered")
      @UseFilters(LimitFilter)
      @RateLimit({ policy: slow(1, "filtered") })
      class FilteredController {
        @Get() get() {
          return "ok";
        }
      }
      const url = await appOf({ policy: "1/s" }, FilteredController);
      await sendRequest(url, "/filtered");
      const { status, body, header } = await sendRequest(url, "/filtered");
      expect([status, body]).toEqual([429, "<p>Too fast.</p>"]);
      expect(header("Content-Type")).toMatch(/^text\/html/);
      expect([header("Retry-After"), header("Cache-Control")]).toEqual(["86400", "no-store"]);
      expect(header("RateLimit")).toBe('"filtered";r=0;t=86400');
      const [exception] = caught;
      expect(exception?.decision).toMatchObject({
        allowed: false,
        policy: "filtered",
        retryAfterMs: expect.any(Number),
      });
      expect(exception?.key).toMatch(/127\.0\.0\.1/);
      expect(exception?.getResponse()).toMatchObject({ status: 429, title: "Quota Exceeded" });
    });

    it("leaves the type of a filter's own JSON alone", async () => {
      @Catch()
      class JsonFilter implements ExceptionFilter {
        catch(exception: RateLimitException, host: ArgumentsHost) {
          host.switchToHttp().getResponse().status(exception.getStatus()).send({ error: "slow down" });
        }
      }
      const url = await started({
        imports: [RateLimitModule.forRoot({ policy: slow(1, "app") })],
        controllers: [PlainController],
        providers: [GLOBAL_GUARD, { provide: APP_FILTER, useClass: JsonFilter }],
      });
      await sendRequest(url, "/a");
      const { body, header } = await sendRequest(url, "/a");
      expect([body, header("Content-Type")]).toEqual(['{"error":"slow down"}', "application/json; charset=utf-8"]);
    });

    it("sends what onLimited returns as the body of the exception", async () => {
      const own = (onLimited: NonNullable<NestRateLimitOptions["onLimited"]>) => ({
        policy: slow(1, "app"),
        onLimited,
      });
      for (const [onLimited, status, body] of [
        [({ decision }: { decision: { policy: string } }) => ({ error: decision.policy }), 429, { error: "app" }],
        [async () => "slow down", 429, { statusCode: 429, message: "slow down" }],
        [
          ({ args: [, response] }: { args: readonly [unknown, { status(code: number): void }, unknown] }) => {
            response.status(420);
            return { error: "calm" };
          },
          420,
          { error: "calm" },
        ],
      ] as const) {
        const url = await appOf(own(onLimited as never), PlainController);
        await sendRequest(url, "/a");
        const denied = await sendRequest(url, "/a");
        expect([denied.status, JSON.parse(denied.body)]).toEqual([status, body]);
        expect(denied.header("Retry-After")).toBe("86400");
      }
    });

    it("passes the context to callbacks, and the parsed body", async () => {
      @Controller("login")
      class LoginController {
        @Post()
        @HttpCode(200)
        @RateLimit({
          policy: slow(1, "login"),
          key: (request, _response, context: ExecutionContext) =>
            `${context.getClass().name}.${context.getHandler().name}:${request.body.name}`,
        })
        login(@Body() body: { name: string }) {
          return body.name;
        }
      }
      const keys: string[] = [];
      const url = await appOf({ policy: "1/s", onDecision: ({ key }) => void keys.push(key) }, LoginController);
      const login = async (name: string) => {
        const headers = { "Content-Type": "application/json" };
        return (await fetch(new URL("/login", url), { method: "POST", headers, body: JSON.stringify({ name }) }))
          .status;
      };
      expect([await login("ada"), await login("ada"), await login("eve")]).toEqual([200, 429, 200]);
      expect(keys).toEqual(["LoginController.login:ada", "LoginController.login:ada", "LoginController.login:eve"]);
    });

    it("can be created and overridden in a test module", async () => {
      const module = await Test.createTestingModule({
        imports: [RateLimitModule.forRoot({ policy: slow(1, "app") })],
        controllers: [PlainController],
        providers: [GLOBAL_GUARD],
      })
        .overrideProvider(RATE_LIMIT_OPTIONS)
        .useValue({ policy: slow(2, "test") })
        .compile();
      expect(module.get(RateLimitGuard)).toBeInstanceOf(RateLimitGuard);
      const app = module.createNestApplication({ logger: false });
      await app.listen(0, "127.0.0.1");
      onTestFinished(() => app.close());
      expect(await statuses(await app.getUrl(), "/a", "/a", "/a")).toEqual([200, 200, 429]);
    });

    it("lets messages of sockets and microservices pass, with one warning", async () => {
      const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
      onTestFinished(() => warned.mockRestore());
      const guard = rateLimitGuard({ policy: slow(1, "app") });
      const message = { getType: () => "rpc", getArgs: () => [{}, {}] } as unknown as ExecutionContext;
      for (let i = 0; i < 3; i++) expect(await guard.canActivate(message)).toBe(true);
      expect(warned).toHaveBeenCalledTimes(1);
      expect(String(warned.mock.calls[0]?.[0])).toContain('does not limit messages of the type "rpc"');
    });
  });
}
