/** The module of docs/middleware/nestjs.md. */
import { Module } from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import { tokenBucket } from "sluice";
import { RateLimitGuard, RateLimitModule } from "sluice/nestjs";
import { AppController } from "./app.controller.ts";

@Module({
  imports: [RateLimitModule.forRoot({ policy: tokenBucket("10/h", { name: "api" }) })],
  controllers: [AppController],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
export class AppModule {}
