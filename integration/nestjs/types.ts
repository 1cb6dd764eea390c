/** The module, the guard and the decorators in every position of NestJS, type-checked only. */
import { Controller, type ExecutionContext, Get, Module, Post, UseGuards } from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import { createLimiter, type Decision, type RateLimiter, tokenBucket } from "sluice";
import {
  getRateLimit,
  RateLimit,
  type RateLimitException,
  RateLimitGuard,
  RateLimitModule,
  type RateLimitModuleOptions,
  type RateLimitOptionsFactory,
  rateLimitGuard,
  SkipRateLimit,
} from "sluice/nestjs";

const limiter = createLimiter({ policy: tokenBucket("1/m") });

@Controller()
@RateLimit({ policies: ["10/s", "1000/h"] })
export class SomeController {
  @Get() @RateLimit({ policy: "5/m", cost: async (request) => request.body.size }) one() {}
  @Post() @SkipRateLimit() none() {}
  @Get("more") @UseGuards(RateLimitGuard, rateLimitGuard({ limiter })) more() {}
}

class Options implements RateLimitOptionsFactory {
  createRateLimitOptions(): RateLimitModuleOptions {
    return { limits: [{ limiter, key: (request) => request.user.id }] };
  }
}

@Module({
  imports: [
    RateLimitModule.forRoot({
      limiter: () => limiter,
      key: (request, _response, context: ExecutionContext) => `${context.getHandler().name}:${request.ip}`,
      skip: (_request, _response, context) => context.getType() === "ws",
      identity: "peer",
      onLimited: ({ decision, args: [, response] }) => response.status(420).send(decision.policy),
      onError: (_error, request) => (request.method === "GET" ? "allow" : "deny"),
    }),
    RateLimitModule.forRoot({ global: false, identity: "cloudflare" }),
    RateLimitModule.forRootAsync({ inject: ["x"], useFactory: (limiter: RateLimiter) => ({ limiter }) }),
    RateLimitModule.forRootAsync({ useClass: Options }),
    RateLimitModule.forRootAsync({ useExisting: Options }),
  ],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
export class SomeModule {}

export function decisionOf(exception: RateLimitException): Decision | undefined {
  const status: number = exception.getStatus();
  return status === 429 ? exception.decision : getRateLimit({});
}

// @ts-expect-error not a rate
RateLimit({ policy: "fast" });
// @ts-expect-error no such option
RateLimit({ ttl: 60_000 });
// @ts-expect-error a key is a string
RateLimit({ policy: "5/m", key: () => 1 });
// @ts-expect-error a context has no such member
RateLimit({ policy: "5/m", key: (_request, _response, context) => context.handlerName });
// @ts-expect-error options are required
RateLimitModule.forRoot();
// @ts-expect-error no such platform
RateLimitModule.forRoot({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error a factory returns options
RateLimitModule.forRootAsync({ useFactory: () => ({ limit: 5 }) });
// @ts-expect-error not a factory of options
RateLimitModule.forRootAsync({ useClass: SomeController });
// @ts-expect-error the decision may be missing
export const policyOf = (exception: RateLimitException): string => exception.decision.policy;
