/** A limiter whose store is elsewhere: it may be slow or away, and asking it costs a round trip. */
import { monotonicMs } from "../core/clock.ts";
import type { CompiledPolicy } from "../core/compile.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { optionError } from "../core/errors.ts";
import { recordUnknownGrant, refundOf } from "../core/grant.ts";
import type { Store } from "../core/store.ts";
import type { Watcher } from "../resilience/breaker.ts";
import { type DenialCache, replayFor } from "../resilience/denial-cache.ts";
import { emit } from "../resilience/events.ts";
import { type CaredCharge, decideWithout, type FailurePolicy } from "../resilience/failure-policy.ts";
import { healthOf, StoreFailure, type StoreHealth } from "../resilience/store-health.ts";
import { Limiter } from "./limiter.ts";

/** One policy on a store that answers by promise. */
export class RemoteLimiter extends Limiter {
  private readonly health: StoreHealth;
  private readonly denials: DenialCache;
  private readonly watcher: Watcher;

  constructor(store: Store, policy: CompiledPolicy, failurePolicy: FailurePolicy, release: () => Promise<void>) {
    super(store, policy, failurePolicy, release);
    this.health = healthOf(store);
    this.denials = this.health.denialsOf(policy);
    const { onEvent } = failurePolicy;
    this.watcher = {
      down: (error) => emit(onEvent, { type: "store-down", policy: policy.name, error }),
      up: (downMs) => emit(onEvent, { type: "store-up", policy: policy.name, downMs }),
    };
    if (onEvent) this.health.watch(this.watcher);
    this.tellNews();
  }

  override consume(key: string, cost = 1): Promise<Decision> {
    try {
      this.check(key, cost);
    } catch (error) {
      return Promise.reject(error);
    }
    const now = monotonicMs();
    const denial = this.denials.find(key, now, this.failurePolicy.localDenialMs);
    if (denial !== undefined && this.health.invalidations.isCurrent(this.policy.id, key, denial.sentAt)) {
      const denied = replayFor(denial, cost, this.policy, now);
      if (denied) return Promise.resolve(denied);
    }
    return this.ask(key, cost, "take", now);
  }

  override async peek(key: string, cost = 1): Promise<Decision> {
    this.check(key, cost);
    return this.ask(key, cost, "peek", monotonicMs());
  }

  override async refund(key: string, cost: number, decision?: Decision): Promise<void> {
    this.check(key, cost);
    const refund = refundOf(decision, cost);
    if (!refund) return;
    const { policy, failurePolicy, health } = this;
    const answer = await health.refund(
      this.store,
      [{ policy, key, cost: refund.cost, mode: "refund", grantEndsAt: refund.endsAt }],
      monotonicMs() + failurePolicy.deadlineMs,
    );
    if (!(answer instanceof StoreFailure)) return;
    const { error } = answer;
    if (failurePolicy.onStoreError === "throw") throw error;
    emit(failurePolicy.onEvent, { type: "refund-lost", policy: policy.name, cost, error });
  }

  /** Whoever resets a key wants to know that it was done: a fault is thrown, whatever is done about others. */
  override async reset(key: string): Promise<void> {
    this.check(key, 0);
    const { localPolicy, deadlineMs } = this.failurePolicy;
    await this.health.reset(this.store, this.policy, localPolicy, key, monotonicMs() + deadlineMs);
  }

  override async inspect(key: string): Promise<Inspection> {
    this.check(key, 0);
    return this.health.inspect(this.store, this.policy, key, monotonicMs() + this.failurePolicy.deadlineMs);
  }

  override async dispose(): Promise<void> {
    this.health.unwatch(this.watcher);
    await super.dispose();
  }

  private async ask(key: string, cost: number, mode: "take" | "peek", sentAt: number): Promise<Decision> {
    const { policy, failurePolicy, health } = this;
    const charge: CaredCharge = { policy, failurePolicy, key, cost, mode };
    const answer = await health.apply(this.store, [charge], sentAt + failurePolicy.deadlineMs);
    this.tellNews();
    if (answer instanceof StoreFailure) return decideWithout([charge], health, answer, monotonicMs())[0] as Decision;
    const decision = answer[0]?.[0];
    if (!decision) throw optionError("invalid-option", "store", "a decision for every charge");
    if (mode === "take") recordUnknownGrant(decision, cost);
    const notable = mode === "take" && cost > 0 && failurePolicy.localDenialMs > 0;
    if (notable && health.invalidations.isCurrent(policy.id, key, sentAt)) {
      this.denials.record(key, cost, decision, sentAt, monotonicMs());
    }
    return decision;
  }

  /** Tells what the store has to say, to the first who listens. */
  private tellNews(): void {
    const { onEvent } = this.failurePolicy;
    const message = onEvent && this.health.nextWarning(this.store);
    if (message !== undefined) emit(onEvent, { type: "warning", policy: this.policy.name, message });
  }
}
