/** Limiters whose decisions are observed. Those of sluice count by themselves; others are wrapped. */

import { monotonicMs } from "../base/clock.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { PolicyObserver } from "../core/apply.ts";
import { type Act, type Part, TAKE } from "../core/apply.ts";
import type { Decision } from "../core/decision.ts";
import type { Limiter } from "../core/limiter.ts";
import type { LimiterLike, ObserverPort } from "../core/observer.ts";
import { consumeAs, isComposable, isPlain, takeCharge } from "../core/part-charges.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { HOLD } from "../holds/hold-acts.ts";
import type { HoldOptions } from "../holds/hold-options.ts";
import { outcomeOf, policyNameOf } from "./outcomes.ts";

/** The observer of a limiter. Registered, because the two builds of the package share it. */
const OBSERVED_BY: unique symbol = Symbol.for("sluice.observed-by") as never;

/** Methods that are called on the limiter itself. */
const DELEGATED = ["peek", "refund", "reset", "inspect", "getPolicy", "getPolicies", "dispose"] as const;

/** The members that are replaced or passed on. */
interface Members extends Partial<RateLimiter> {
  /** Of a hybrid: the same limiter with other limiters in place of its two. */
  withLimiters?(replace: (limiter: RateLimiter) => RateLimiter): RateLimiter;
  readonly [OBSERVED_BY]?: ObserverPort;
}

/** The counters of a policy, by the policy or by its name. */
export interface CounterSource {
  policy(policy: Part["policy"], store: Part["engine"]["store"]): PolicyObserver;
  named(name: string): PolicyObserver;
}

/** Returns a limiter that is observed. What is not a limiter is returned as it is, for the caller to reject. */
export function observeLimiter<L extends LimiterLike>(limiter: L, port: ObserverPort, counters: CounterSource): L {
  const inner = limiter as L & Members;
  if (typeof inner !== "object" || inner === null || typeof inner.consume !== "function") return limiter;
  if (isComposable(inner)) return observeParts(inner as unknown as Limiter, port, counters) as unknown as L;
  return inner[OBSERVED_BY] === port ? limiter : wrapLimiter(inner, port, counters);
}

/** The same limiter, whose parts have the counters of an observer. One whose methods were replaced is wrapped. */
function observeParts(limiter: Limiter, port: ObserverPort, counters: CounterSource): Limiter {
  const parts = limiter.parts();
  const isObserved = ({ observed }: Part): boolean => {
    for (let own = observed; own; own = own.next) if (own.port === port) return true;
    return false;
  };
  if (parts.every(isObserved)) return limiter;
  const own = parts.map((part) => ({ ...part, observed: counters.policy(part.policy, part.engine.store) }));
  const observed = parts.map((part, i): Part => {
    if (isObserved(part)) return part;
    const { observed } = own[i] as (typeof own)[number];
    return {
      ...part,
      observed: part.observed ? Object.create(observed, { next: { value: part.observed } }) : observed,
    };
  });
  if (!isPlain(limiter)) return wrapLimiter(limiter, port, counters, { own, observed }) as Limiter;
  const { charging, release, life } = limiter;
  // The two limiters end together.
  return new (limiter.constructor as typeof Limiter)(observed, charging, release, life);
}

/** The parts of a limiter whose methods were replaced. */
interface WrappedParts {
  /** With the counters of this observer alone: the limiter counts for others itself. */
  readonly own: readonly Part[];
  /** For functions that charge the parts themselves. */
  readonly observed: readonly Part[];
}

/** A limiter of another library, a hybrid, whose limiters count their decisions, or one whose methods were replaced. */
function wrapLimiter<L extends LimiterLike & Members>(
  limiter: L,
  port: ObserverPort,
  counters: CounterSource,
  parts?: WrappedParts,
): L {
  const hybrid = limiter.withLimiters?.((one) => port.wrap(one));
  const decided = (decision: Decision, key: string, cost: number, charged: number, act: Act, sentAt = 0): Decision => {
    const isEnforced = act.enforcedGroups !== 0;
    // A third-party limiter may return anything, which its caller checks.
    const isDecision = typeof decision === "object" && decision !== null;
    if (isDecision && parts) {
      const charges = parts.own.map((part) => takeCharge(part, key, cost));
      port.count([charges], act, [charges.map((_, i) => decision.parts?.[i] ?? decision)], sentAt);
      return decision;
    }
    if (isDecision && !hybrid) counters.named(policyNameOf(decision)).count(decision, key, charged, isEnforced);
    if (!isDecision || act.reporter === port || (decision.allowed && !port.isListening)) return decision;
    const policy = policyNameOf(decision);
    const outcome = outcomeOf(decision, isEnforced, false);
    port.decided({ rule: policy, policy, outcome, key, cost, decision, durationMs: undefined });
    return decision;
  };
  const members: Record<PropertyKey, unknown> = {
    [OBSERVED_BY]: port,
    consumeAs(key: string, cost: number, act: Act) {
      const sentAt = monotonicMs();
      // The limiters of a hybrid only count. Others know no acts.
      const reply = hybrid
        ? consumeAs(hybrid, key, cost, { ...act, reporter: port })
        : limiter.consumeSync
          ? limiter.consumeSync(key, cost)
          : limiter.consume(key, cost);
      return andThen(reply as MaybePromise<Decision>, (decision) => decided(decision, key, cost, cost, act, sentAt));
    },
    consume(key: string, cost = 1) {
      const sentAt = monotonicMs();
      const reply = hybrid
        ? consumeAs(hybrid, key, cost, { ...TAKE, reporter: port })
        : (limiter.consume(key, cost) as MaybePromise<Decision>);
      return andThen(reply, (decision) => decided(decision, key, cost, cost, TAKE, sentAt));
    },
  };
  if (parts) members.parts = () => parts.observed;
  if (limiter.consumeSync) {
    members.consumeSync = (key: string, cost = 1) =>
      decided(limiter.consumeSync?.(key, cost) as Decision, key, cost, cost, TAKE);
  }
  addHolds(members, limiter, decided);
  for (const name of DELEGATED) {
    const method = limiter[name] as ((...args: unknown[]) => unknown) | undefined;
    if (typeof method === "function") members[name] = (...args: unknown[]) => method.apply(limiter, args);
  }
  // Its prototype is the limiter, so that members which are not replaced stay available.
  const wrapper = Object.create(limiter) as L;
  // Defined and not assigned: the members of a frozen limiter can't be assigned to objects that inherit them.
  Object.defineProperties(wrapper, Object.getOwnPropertyDescriptors(members));
  return parts ? wrapper : withOwnMembers(wrapper, limiter);
}

type Decided = (decision: Decision, key: string, cost: number, charged: number, act: Act) => Decision;

/** Adds the holds of a third-party limiter. The cost of what is held is counted when it is settled. */
function addHolds(members: Record<PropertyKey, unknown>, limiter: LimiterLike, decided: Decided): void {
  const holdOn = limiter.holdSync ?? limiter.hold;
  if (!holdOn) return;
  const observed =
    (method: (key: string, amount: number, options?: HoldOptions) => MaybePromise<Decision>) =>
    (key: string, amount = 1, options?: HoldOptions, act: Act = HOLD) =>
      andThen(method.call(limiter, key, amount, options), (decision) =>
        decided(decision, key, amount, decision.allowed ? 0 : amount, act),
      );
  members.holdAs = observed(holdOn);
  if (limiter.holdSync) members.holdSync = observed(limiter.holdSync);
  if (limiter.hold) members.hold = observed(limiter.hold);
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
