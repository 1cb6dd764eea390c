/** `sluice/nestjs`: for NestJS 11 and 12. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export { type NestArgs, RateLimitException } from "../middleware/hosts/nest-guard.ts";
export type { RequestIdempotency } from "../middleware/idempotency/current.ts";
export type { IdempotencyOptions } from "../middleware/idempotency/options.ts";
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
