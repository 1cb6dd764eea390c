/** The app of docs/middleware/nestjs.md. */
import "reflect-metadata";
import { Body, Controller, Get, Module, Post } from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import { slidingLog, tokenBucket } from "sluice";
import { RateLimit, RateLimitGuard, RateLimitModule, SkipRateLimit } from "sluice/nestjs";

@Controller()
export class AppController {
  @Get()
  hello() {
    return "hello\n";
  }

  // In place of the limit of the app: 3 logins of one name in 15 minutes.
  @Post("login")
  @RateLimit({ policy: slidingLog("3/15m", { name: "login" }), key: (request) => `login:${request.body.name}` })
  login(@Body() body: { name: string }) {
    return `welcome ${body.name}\n`;
  }

  // From the budget of the app, five at once.
  @Get("export")
  @RateLimit({ cost: 5 })
  export() {
    return "a long list\n";
  }

  @Get("health")
  @SkipRateLimit()
  health() {
    return "ok\n";
  }
}

@Module({
  imports: [RateLimitModule.forRoot({ policy: tokenBucket("10/h", { name: "api" }) })],
  controllers: [AppController],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
export class AppModule {}
