/** `sluice/nestjs`: for NestJS 11 and 12. */
export { type NestArgs, RateLimitException } from "../middleware/hosts/nest-guard.ts";
export {
  getIdempotency,
  getRateLimit,
  idempotentGuard,
  type NestIdempotencyOptions,
  type NestRateLimitOptions,
  RATE_LIMIT_OPTIONS,
  RateLimit,
  RateLimitGuard,
  RateLimitModule,
  type RateLimitModuleAsyncOptions,
  type RateLimitModuleOptions,
  type RateLimitOptionsFactory,
  rateLimitGuard,
  SkipRateLimit,
} from "../middleware/nestjs.ts";
export type * from "../middleware/types.ts";
