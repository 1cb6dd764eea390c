/** Limiters whose decisions are observed. */
import { monotonicMs } from "../core/clock.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Decision } from "../core/decision.ts";
import { isPromise } from "../core/maybe-promise.ts";
import type { LimiterLike, ObserverPort, PolicyObserver } from "../core/observer.ts";
import { type Duration, parseDuration } from "../core/rate.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import { outcomeOf } from "./outcomes.ts";
import { PolicyCounters } from "./policy-counters.ts";

/** The observer of a limiter. Registered, because the two builds of the package share it. */
const OBSERVED_BY: unique symbol = Symbol.for("sluice.observed-by") as never;

/** A part of a limiter of sluice. */
interface Part {
  readonly port: { readonly store: Store; readonly syncStore: object | undefined };
  readonly policy: CompiledPolicy;
  readonly failurePolicy: { readonly observed: PolicyObserver | undefined; readonly copyOf?: object | undefined };
}

/** The members that are replaced or passed on. */
interface Members extends Partial<RateLimiter> {
  parts?(): readonly Part[];
  readonly [OBSERVED_BY]?: ObserverPort;
}

/** Methods that are called on the limiter itself. */
const DELEGATED = [
  "peek",
  "refund",
  "settle",
  "unblock",
  "reset",
  "inspect",
  "getPolicy",
  "getPolicies",
  "dispose",
] as const;

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
  const observers = parts?.map((part) => {
    if (isCombination && isObserved(part)) return undefined;
    return part.failurePolicy.observed?.port === port
      ? part.failurePolicy.observed
      : counters.policy(part.policy, part.port.store);
  });
  const reporting = new LimiterReports(port, parts, observers, (name) => counters.named(name));
  // Its prototype is the limiter, so that members which are not replaced stay available.
  return Object.assign(Object.create(limiter), membersOf(inner, reporting, port)) as L;
}

/** The members that are replaced. */
function membersOf(inner: Members & LimiterLike, reports: LimiterReports, port: ObserverPort): object {
  const members: Record<PropertyKey, unknown> = {
    [OBSERVED_BY]: port,
    consume: (key: string, cost = 1) => {
      const startedAt = reports.start();
      const isReported = !port.isInRequest;
      const decided = inner.consume(key, cost) as Decision | PromiseLike<Decision>;
      if (!isPromise(decided)) return reports.decided(decided, key, cost, isReported);
      return decided.then((decision) => reports.decided(decision, key, cost, isReported, startedAt));
    },
  };
  for (const name of DELEGATED) {
    const method = inner[name] as ((...args: unknown[]) => unknown) | undefined;
    if (typeof method === "function") members[name] = (...args: unknown[]) => method.apply(inner, args);
  }
  if (inner.consumeSync) {
    members.consumeSync = (key: string, cost = 1) =>
      reports.decided(inner.consumeSync?.(key, cost) as Decision, key, cost, !port.isInRequest);
  }
  if (inner.holdSync) {
    members.holdSync = (...args: Parameters<NonNullable<RateLimiter["holdSync"]>>) =>
      reports.held(inner.holdSync?.(...args) as Decision, args[0], args[1] ?? 1, !port.isInRequest);
  }
  if (inner.hold) {
    members.hold = (...args: Parameters<RateLimiter["hold"]>) => {
      const startedAt = reports.start();
      const isReported = !port.isInRequest;
      return inner
        .hold?.(...args)
        .then((decision) => reports.held(decision, args[0], args[1] ?? 1, isReported, startedAt));
    };
  }
  if (inner.strike) {
    members.strike = async (key: string, times?: number) =>
      reports.struck((await inner.strike?.(key, times)) as Decision, key);
  }
  if (inner.block) {
    members.block = async (key: string, forMs: Duration) => {
      const decision = await inner.block?.(key, forMs);
      reports.blocked(key, parseDuration("forMs", forMs) as number);
      return decision;
    };
  }
  if (inner.parts) members.parts = () => reports.observedParts(inner.parts?.() ?? []);
  return members;
}

/** Counts and reports the decisions of one limiter. */
class LimiterReports {
  private readonly port: ObserverPort;
  private readonly parts: readonly Part[] | undefined;
  /** One per part; `undefined` if the limiter counts the part itself. */
  private readonly observers: readonly (PolicyObserver | undefined)[] | undefined;
  private readonly only: PolicyObserver | undefined;
  private readonly named: (policy: string) => PolicyObserver;
  private readonly isRemote: boolean;

  constructor(
    port: ObserverPort,
    parts: readonly Part[] | undefined,
    observers: readonly (PolicyObserver | undefined)[] | undefined,
    named: (policy: string) => PolicyObserver,
  ) {
    this.port = port;
    this.parts = parts;
    this.observers = observers;
    this.only = observers?.length === 1 ? observers[0] : undefined;
    this.named = named;
    this.isRemote = parts?.some((part) => !part.port.syncStore) ?? false;
  }

  start(): number | undefined {
    return this.isRemote ? monotonicMs() : undefined;
  }

  /** The same parts, whose counters count joint charges. */
  observedParts(parts: readonly Part[]): readonly Part[] {
    return parts.map((part, i) => {
      const { failurePolicy } = part;
      const observed = this.observers?.[i];
      if (!observed || observed === failurePolicy.observed) return part;
      // Leases belong to the limiter itself, which releases them when it is disposed of.
      return { ...part, failurePolicy: { ...failurePolicy, observed, copyOf: failurePolicy.copyOf ?? failurePolicy } };
    });
  }

  decided(decision: Decision, key: string, cost: number, isReported: boolean, startedAt?: number): Decision {
    const { only } = this;
    if (only) only.count(decision, key, cost, true);
    else this.countParts(decision, key, () => cost);
    if (isReported && (!decision.allowed || this.port.isListening)) this.report(decision, key, cost, startedAt);
    return decision;
  }

  /** The cost of what is held is counted when it is settled. Slots of a concurrency limit are not charged then. */
  held(decision: Decision, key: string, amount: number, isReported: boolean, startedAt?: number): Decision {
    this.countParts(decision, key, (part) =>
      !decision.allowed || part?.policy.algorithm === "concurrency" ? amount : 0,
    );
    if (isReported && (!decision.allowed || this.port.isListening)) this.report(decision, key, amount, startedAt);
    return decision;
  }

  struck(decision: Decision, key: string): Decision {
    if (this.only instanceof PolicyCounters && !decision.allowed) this.only.detectBlock(decision, key);
    return decision;
  }

  blocked(key: string, forMs: number): void {
    if (this.only instanceof PolicyCounters) this.only.blocked(key, forMs);
  }

  private countParts(decision: Decision, key: string, costOf: (part: Part | undefined) => number): void {
    const { observers, parts } = this;
    // A third-party limiter may return anything, which its caller checks.
    if (typeof decision !== "object" || decision === null) return;
    if (!observers) {
      if (typeof decision.policy === "string")
        this.named(decision.policy).count(decision, key, costOf(undefined), true);
      return;
    }
    for (let i = 0; i < observers.length; i++) {
      const part = decision.parts?.[i] ?? decision;
      // A denied group takes nothing from the parts that would have allowed it.
      if (!decision.allowed && part.allowed) continue;
      const own = parts?.[i];
      if (own?.policy.block && part.allowed) continue;
      observers[i]?.count(part, key, own?.policy.block ? 0 : costOf(own), true);
    }
  }

  private report(decision: Decision, key: string, cost: number, startedAt: number | undefined): void {
    const { policy, source } = decision;
    // Cached denials don't wait for the store.
    const durationMs = startedAt === undefined || source === "cache" ? undefined : monotonicMs() - startedAt;
    const limiting = this.parts?.find((part) => part.policy.name === policy);
    const outcome = outcomeOf(decision, true, limiting?.policy.block !== undefined);
    this.port.decided({ rule: policy, policy, outcome, key, cost, decision, durationMs });
  }
}
