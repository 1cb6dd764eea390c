/** The options of docs/middleware/nestjs.md that depend on other providers. */
import { Inject, Module, type OnApplicationShutdown } from "@nestjs/common";
import { Redis } from "ioredis";
import { tokenBucket } from "sluice";
import { RateLimitModule } from "sluice/nestjs";
import { redisRateLimiter } from "sluice/redis";

@Module({
  providers: [{ provide: Redis, useFactory: () => new Redis(process.env.REDIS_URL ?? "") }],
  exports: [Redis],
})
export class RedisModule implements OnApplicationShutdown {
  private readonly redis: Redis;
  constructor(@Inject(Redis) redis: Redis) {
    this.redis = redis;
  }
  onApplicationShutdown() {
    this.redis.disconnect();
  }
}

export const limits = RateLimitModule.forRootAsync({
  imports: [RedisModule],
  inject: [Redis],
  useFactory: (redis: Redis) => ({ limiter: redisRateLimiter(redis, tokenBucket("2/h", { name: "api" })) }),
});
