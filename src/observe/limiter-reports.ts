/** Counts and reports the decisions of one limiter. */
import { monotonicMs } from "../core/clock.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Decision } from "../core/decision.ts";
import type { ObserverPort, PolicyObserver } from "../core/observer.ts";
import type { Store } from "../core/store.ts";
import { outcomeOf, policyNameOf } from "./outcomes.ts";

/** A part of a limiter of sluice. */
export interface Part {
  readonly port: { readonly store: Store; readonly syncStore: object | undefined };
  readonly policy: CompiledPolicy;
  readonly failurePolicy: { readonly observed: PolicyObserver | undefined; readonly copyOf?: object | undefined };
}

/** Counts and reports the decisions of one limiter. */
export class LimiterReports {
  private readonly port: ObserverPort;
  private readonly parts: readonly Part[] | undefined;
  /** One per part; `undefined` if the limiter counts the part itself. */
  private readonly observers: readonly (PolicyObserver | undefined)[] | undefined;
  private readonly only: PolicyObserver | undefined;
  /** Whether the limiter itself reports its decisions, because it has parts that are observed. */
  private readonly isReportedByLimiter: boolean;
  private readonly named: (policy: string) => PolicyObserver;
  private readonly isRemote: boolean;

  constructor(
    port: ObserverPort,
    parts: readonly Part[] | undefined,
    observers: readonly (PolicyObserver | undefined)[] | undefined,
    isReportedByLimiter: boolean,
    named: (policy: string) => PolicyObserver,
  ) {
    this.port = port;
    this.parts = parts;
    this.observers = observers;
    this.only = observers?.length === 1 ? observers[0] : undefined;
    this.isReportedByLimiter = isReportedByLimiter;
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

  decided(
    decision: Decision,
    key: string,
    cost: number,
    isReported: boolean,
    isEnforced: boolean,
    startedAt?: number,
  ): Decision {
    const { only } = this;
    if (only) only.count(decision, key, cost, isEnforced);
    else this.countParts(decision, key, isEnforced, () => cost);
    if (this.isReportedByLimiter) return decision;
    if (isReported && (!decision.allowed || this.port.isListening)) this.report(decision, key, cost, startedAt);
    return decision;
  }

  /** A hold of a third-party limiter. The cost of what is held is counted when it is settled. */
  held(
    decision: Decision,
    key: string,
    amount: number,
    isReported: boolean,
    isEnforced: boolean,
    startedAt?: number,
  ): Decision {
    this.countParts(decision, key, isEnforced, () => (decision.allowed ? 0 : amount));
    if (isReported && (!decision.allowed || this.port.isListening)) this.report(decision, key, amount, startedAt);
    return decision;
  }

  private countParts(
    decision: Decision,
    key: string,
    isEnforced: boolean,
    costOf: (part: Part | undefined) => number,
  ): void {
    const { observers, parts } = this;
    // A third-party limiter may return anything, which its caller checks.
    if (typeof decision !== "object" || decision === null) return;
    if (!observers) {
      this.named(policyNameOf(decision)).count(decision, key, costOf(undefined), isEnforced);
      return;
    }
    for (let i = 0; i < observers.length; i++) {
      const part = decision.parts?.[i] ?? decision;
      // A denied group takes nothing from the parts that would have allowed it.
      if (!decision.allowed && part.allowed) continue;
      const own = parts?.[i];
      if (own?.policy.kind === "penalty" && part.allowed) continue;
      observers[i]?.count(part, key, own?.policy.kind === "penalty" ? 0 : costOf(own), isEnforced);
    }
  }

  private report(decision: Decision, key: string, cost: number, startedAt: number | undefined): void {
    const { source } = decision;
    const policy = policyNameOf(decision);
    // Cached denials don't wait for the store.
    const durationMs = startedAt === undefined || source === "cache" ? undefined : monotonicMs() - startedAt;
    const limiting = this.parts?.find((part) => part.policy.name === policy);
    const outcome = outcomeOf(decision, true, limiting?.policy.kind === "penalty");
    this.port.decided({ rule: policy, policy, outcome, key, cost, decision, durationMs });
  }
}
