/** The app of docs/migrating/from-nestjs-throttler.md, with sluice. */
import "reflect-metadata";
import { Controller, Get, Module, Post } from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import { slidingLog, tokenBucket } from "sluice";
import { RateLimit, RateLimitGuard, RateLimitModule, SkipRateLimit } from "sluice/nestjs";

@Controller()
export class AppController {
  @Get("reports")
  reports() {
    return "reports";
  }

  @Get("invoices")
  invoices() {
    return "invoices";
  }

  @Post("login")
  @RateLimit({ policy: slidingLog("3/15m", { name: "login" }) })
  login() {
    return "welcome";
  }

  @Get("health")
  @SkipRateLimit()
  health() {
    return "ok";
  }
}

@Module({
  imports: [
    RateLimitModule.forRoot({
      policy: tokenBucket("10/m", { name: "api" }),
      // Keeps the throttler's header names, so that clients don't have to change yet.
      headers: { mode: "legacy", resetFormat: "delta" },
    }),
  ],
  controllers: [AppController],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
export class AppModule {}
