/** What all limiters of one policy have in common, wherever their store is. */
import { checkCost, checkKey } from "../core/charge.ts";
import type { CompiledPolicy } from "../core/compile.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { rejectDisposed } from "../core/errors.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { Consistency, Store } from "../core/store.ts";
import type { FailurePolicy } from "../resilience/failure-policy.ts";
import type { ComposableLimiter, LimiterPart } from "./limiter-part.ts";

/** One policy on one store. */
export abstract class Limiter<S extends Store = Store> implements ComposableLimiter {
  readonly store: S;
  readonly policy: CompiledPolicy;
  readonly failurePolicy: FailurePolicy;
  /** What is given up with the limiter. */
  private readonly release: () => Promise<void>;
  protected disposed = false;

  constructor(store: S, policy: CompiledPolicy, failurePolicy: FailurePolicy, release: () => Promise<void>) {
    this.store = store;
    this.policy = policy;
    this.failurePolicy = failurePolicy;
    this.release = release;
  }

  get consistency(): Consistency {
    return this.store.consistency;
  }

  abstract consume(key: string, cost?: number): Promise<Decision>;
  abstract peek(key: string, cost?: number): Promise<Decision>;
  abstract refund(key: string, cost: number, decision?: Decision): Promise<void>;
  abstract reset(key: string): Promise<void>;
  abstract inspect(key: string): Promise<Inspection>;

  getPolicy(): ResolvedPolicy {
    return this.policy.resolved;
  }

  async dispose(): Promise<void> {
    if (this.disposed) return;
    this.disposed = true;
    await this.release();
  }

  parts(): readonly LimiterPart[] {
    if (this.disposed) rejectDisposed("limiter");
    return [this];
  }

  protected check(key: string, cost: number): void {
    if (this.disposed) rejectDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }
}
