/** Suites and fakes, so that anybody can certify a limiter or a store of their own. */
export { describeRateLimiter, type SuiteOptions } from "./describe-rate-limiter.ts";
export { type FakeClock, fakeClock } from "./fake-clock.ts";
export type { GuardedRoute, GuardOptions, PlainAnswer, RouteKit } from "./middleware/guarded-route.ts";
export {
  guardedRoutes,
  type MiddlewareSubject,
  middlewareSuite,
  type RunningServer,
} from "./middleware-suite.ts";
export { type Admission, type Excess, findExcess, leastAdmitted } from "./oracles.ts";
export type { Runner } from "./runner.ts";
export { type CreateStore, type StoreSubject, type StoreSuiteOptions, storeSuite } from "./store-suite.ts";
export type { CreateSubject, Subject, Time } from "./subject.ts";
