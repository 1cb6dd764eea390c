/** The controller of docs/middleware/nestjs.md. */
import { Body, Controller, Get, Post } from "@nestjs/common";
import { slidingLog } from "sluice";
import { RateLimit, SkipRateLimit } from "sluice/nestjs";

@Controller()
export class AppController {
  @Get()
  hello() {
    return "hello\n";
  }

  // Replaces the limit of the app: 3 attempts per name in 15 minutes.
  @Post("login")
  @RateLimit({ policy: slidingLog("3/15m", { name: "login" }), key: (request) => `login:${request.body.name}` })
  login(@Body() body: { name: string }) {
    return `welcome ${body.name}\n`;
  }

  // Charges 5 to the budget of the app.
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
