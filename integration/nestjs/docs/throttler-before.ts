/** The app of docs/migrating/from-nestjs-throttler.md, with @nestjs/throttler. */
import "reflect-metadata";
import { Controller, Get, Module, Post } from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import { SkipThrottle, Throttle, ThrottlerGuard, ThrottlerModule } from "@nestjs/throttler";

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
  @Throttle({ default: { limit: 3, ttl: 15 * 60_000 } })
  login() {
    return "welcome";
  }

  @Get("health")
  @SkipThrottle()
  health() {
    return "ok";
  }
}

@Module({
  imports: [ThrottlerModule.forRoot([{ limit: 10, ttl: 60_000 }])],
  controllers: [AppController],
  providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
})
export class AppModule {}
