/** `sluice/testing`: a fake clock, and suites that certify a limiter, a store, a middleware or an idempotency store. */
export { describeRateLimiter, type SuiteOptions } from "../testing/describe-rate-limiter.ts";
export { type FakeClock, fakeClock } from "../testing/fake-clock.ts";
export {
  type CreateIdempotencyStore,
  type IdempotencySubject,
  type IdempotencySuiteOptions,
  idempotencySuite,
} from "../testing/idempotency-suite.ts";
export type {
  ByteStream,
  GuardedRoute,
  PlainResponse,
  RouteIdempotency,
  RouteKit,
  RouteOptions,
} from "../testing/middleware/guarded-route.ts";
export {
  guardedRoutes,
  type MiddlewareSubject,
  middlewareSuite,
  type RunningServer,
} from "../testing/middleware-suite.ts";
export { type Admission, type Excess, findExcess, leastAdmitted } from "../testing/oracles.ts";
export type { Runner } from "../testing/runner.ts";
export { type CreateStore, type StoreSubject, type StoreSuiteOptions, storeSuite } from "../testing/store-suite.ts";
export type { CreateSubject, Subject, Time } from "../testing/subject.ts";
