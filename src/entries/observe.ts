/** `sluice/observe`: events, log lines, metrics, a dashboard and the most denied keys of limiters, rules and middleware. */
export type { Outcome } from "../core/observer.ts";
export type { Authorize } from "../observe/dashboard/access.ts";
export { type Dashboard, type DashboardOptions, dashboard } from "../observe/dashboard/dashboard.ts";
export { type LoopbackToken, loopbackToken } from "../observe/dashboard/loopback-token.ts";
export type { StoreErrorKind } from "../observe/error-kind.ts";
export type { DecisionEvent, ObserverEvent, TransitionEvent, TransitionType } from "../observe/events.ts";
export { type JsonLogOptions, jsonLog, type Logger } from "../observe/json-log.ts";
export type { Metric, MetricSample } from "../observe/metric.ts";
export { createObserver, type Observer, type ObserverOptions } from "../observe/observer.ts";
export type { TrafficSample } from "../observe/recorded-traffic.ts";
export {
  type Suggestion,
  type SuggestOptions,
  suggestPolicy,
} from "../observe/suggest-policy.ts";
export type { TopKey } from "../observe/top-keys.ts";
