/** Limiters whose decisions are observed. */
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Decision } from "../core/decision.ts";
import { isPromise } from "../core/maybe-promise.ts";
import type { LimiterLike, ObserverPort, PolicyObserver } from "../core/observer.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import { LimiterReports, type Part } from "./limiter-reports.ts";

/** The observer of a limiter. Registered, because the two builds of the package share it. */
const OBSERVED_BY: unique symbol = Symbol.for("sluice.observed-by") as never;

/** The members that are replaced or passed on. */
interface Members extends Partial<RateLimiter> {
  parts?(): readonly Part[];
  /** Of a hybrid: the same limiter with other limiters in place of its two. */
  withLimiters?(replace: (limiter: RateLimiter) => RateLimiter): RateLimiter;
  readonly [OBSERVED_BY]?: ObserverPort;
}

/** Methods that are called on the limiter itself. */
const DELEGATED = ["peek", "refund", "reset", "inspect", "getPolicy", "getPolicies", "dispose"] as const;

/** The counters of a policy, by the policy or by its name. */
export interface CounterSource {
  policy(policy: CompiledPolicy, store: Store): PolicyObserver;
  named(name: string): PolicyObserver;
}

/** Wraps a limiter. What is not a limiter is returned as it is, for the caller to reject. */
export function observeLimiter<L extends LimiterLike>(limiter: L, port: ObserverPort, counters: CounterSource): L {
  const inner = limiter as L & Members;
  if (typeof inner !== "object" || inner === null || typeof inner.consume !== "function") return limiter;
  if (inner[OBSERVED_BY] === port) return limiter;
  const parts = typeof inner.parts === "function" ? inner.parts() : undefined;
  const isObserved = ({ failurePolicy }: Part): boolean => failurePolicy.observed?.port === port;
  // Combinations count the parts that are observed already.
  const isCombination = typeof inner.getPolicies === "function";
  if (parts && isCombination && parts.every(isObserved)) return limiter;
  const hybrid = inner.withLimiters?.((one) => quietly(port.wrap(one), port));
  const ownObservers = parts?.map((part) => {
    if (isCombination && isObserved(part)) return undefined;
    return part.failurePolicy.observed?.port === port
      ? part.failurePolicy.observed
      : counters.policy(part.policy, part.port.store);
  });
  // A combination reports to the observer of its first part that has one.
  const reporter = isCombination
    ? parts?.find((part) => part.failurePolicy.observed)?.failurePolicy.observed
    : undefined;
  // The limiters of a hybrid count their decisions.
  const observers = hybrid ? [] : ownObservers;
  const reports = new LimiterReports(port, parts, observers, reporter?.port === port, (name) => counters.named(name));
  // Its prototype is the limiter, so that members which are not replaced stay available.
  const wrapper = Object.create(limiter) as L & Members;
  // Defined and not assigned: the members of a frozen limiter can't be assigned to objects that inherit them.
  const members = membersOf(inner, hybrid ?? inner, reports, port);
  Object.defineProperties(wrapper, Object.getOwnPropertyDescriptors(members));
  return parts ? wrapper : withOwnMembers(wrapper, limiter);
}

/** A limiter of a hybrid, whose decisions are counted and not reported: the hybrid reports them. */
function quietly(limiter: RateLimiter, port: ObserverPort): RateLimiter {
  const consume: RateLimiter["consume"] = (key, cost) => {
    const { isInRequest } = port;
    port.isInRequest = true;
    try {
      return limiter.consume(key, cost);
    } finally {
      port.isInRequest = isInRequest;
    }
  };
  return Object.create(limiter, { consume: { value: consume } }) as RateLimiter;
}

/** Reads all other members from a third-party limiter itself: its fields may be private. */
function withOwnMembers<L extends object>(wrapper: L, limiter: L): L {
  return new Proxy(wrapper, {
    get(_, name) {
      const value: unknown = Reflect.get(Object.hasOwn(wrapper, name) ? wrapper : limiter, name);
      return typeof value === "function" ? value.bind(limiter) : value;
    },
    set: (_, name, value) => Reflect.set(limiter, name, value),
  });
}

/** The members that are replaced. */
function membersOf(
  inner: Members & LimiterLike,
  consumer: LimiterLike,
  reports: LimiterReports,
  port: ObserverPort,
): object {
  const members: Record<PropertyKey, unknown> = {
    [OBSERVED_BY]: port,
    consume: (key: string, cost = 1) => {
      const startedAt = reports.start();
      const { isInRequest, isEnforced } = port;
      const decided = consumer.consume(key, cost) as Decision | PromiseLike<Decision>;
      if (!isPromise(decided)) return reports.decided(decided, key, cost, !isInRequest, isEnforced);
      return decided.then((decision) => reports.decided(decision, key, cost, !isInRequest, isEnforced, startedAt));
    },
  };
  for (const name of DELEGATED) {
    const method = inner[name] as ((...args: unknown[]) => unknown) | undefined;
    if (typeof method === "function") members[name] = (...args: unknown[]) => method.apply(inner, args);
  }
  if (inner.consumeSync) {
    members.consumeSync = (key: string, cost = 1) =>
      reports.decided(inner.consumeSync?.(key, cost) as Decision, key, cost, !port.isInRequest, port.isEnforced);
  }
  // The functions of sluice hold the parts(), and count what they decide.
  if (inner.holdSync && !inner.parts) {
    members.holdSync = (...args: Parameters<NonNullable<LimiterLike["holdSync"]>>) => {
      const { isInRequest, isEnforced } = port;
      const decision = inner.holdSync?.apply(inner, args) as Decision;
      return reports.held(decision, args[0], args[1] ?? 1, !isInRequest, isEnforced);
    };
  }
  if (inner.hold && !inner.parts) {
    members.hold = (...args: Parameters<NonNullable<LimiterLike["hold"]>>) => {
      const startedAt = reports.start();
      const { isInRequest, isEnforced } = port;
      return inner.hold
        ?.apply(inner, args)
        .then((decision) => reports.held(decision, args[0], args[1] ?? 1, !isInRequest, isEnforced, startedAt));
    };
  }
  if (inner.parts) members.parts = () => reports.observedParts(inner.parts?.() ?? []);
  return members;
}
