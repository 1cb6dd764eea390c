/** Controllers with every combination of decorators, for the tests of guards. */
import "reflect-metadata";
import { Controller, Get, UseGuards } from "@nestjs/common";
import { RateLimit, RateLimitGuard, rateLimitGuard, SkipRateLimit } from "sluice/nestjs";

/** A bucket that does not refill during a test. */
export const slow = (capacity: number, name: string) => ({ capacity, tokensPerSecond: `${capacity}/d` as const, name });

@Controller()
export class PlainController {
  @Get("a") a() {
    return "a";
  }
  @Get("b") b() {
    return "b";
  }
  @Get("costly") @RateLimit({ cost: 2 }) costly() {
    return "costly";
  }
  @Get("own") @RateLimit({ policy: slow(1, "own") }) own() {
    return "own";
  }
  @Get("free") @SkipRateLimit() free() {
    return "free";
  }
  @Get("bound-twice") @UseGuards(RateLimitGuard) twice() {
    return "twice";
  }
  @Get("added") @UseGuards(rateLimitGuard({ policy: slow(1, "added") })) added() {
    return "added";
  }
}

@Controller()
export class SomeController {
  @Get("a") a() {
    return "a";
  }
  @Get("own") @RateLimit({ policy: slow(1, "own") }) own() {
    return "own";
  }
}

@Controller("class")
@RateLimit({ policy: slow(2, "class") })
export class LimitedController {
  @Get("a") a() {
    return "a";
  }
  @Get("b") b() {
    return "b";
  }
  @Get("own") @RateLimit({ policy: slow(1, "handler") }) own() {
    return "own";
  }
  @Get("free") @SkipRateLimit() free() {
    return "free";
  }
}

@Controller("skipped")
@SkipRateLimit()
export class SkippedController {
  @Get() free() {
    return "free";
  }
  @Get("limited") @RateLimit({ policy: slow(1, "limited") }) limited() {
    return "limited";
  }
}
