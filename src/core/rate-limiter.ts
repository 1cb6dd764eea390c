/** The interface that users hold. */
import type { Decision, Inspection } from "./decision.ts";
import type { ResolvedPolicy } from "./policy.ts";
import type { Consistency } from "./store.ts";

/** Answers one question: may this key spend this cost now? */
export interface RateLimiter {
  /** Takes `cost` (1 if not given) from the key's budget if it fits. A denial takes nothing. */
  consume(key: string, cost?: number): Promise<Decision>;
  /** The same without a promise, where the store is synchronous. */
  consumeSync?(key: string, cost?: number): Decision;
  /** What `consume` would answer, with the figures as they are; takes nothing. */
  peek(key: string, cost?: number): Promise<Decision>;
  /**
   * Gives `cost` back, never above full. With the decision that took it, nothing is given back once that grant has
   * expired, nor more than is still in use of it. Without it, a late refund gives back what others have spent since.
   */
  refund(key: string, cost: number, decision?: Decision): Promise<void>;
  /** Forgets the key: its budget is full again. */
  reset(key: string): Promise<void>;
  /** What is kept about the key, for a human. */
  inspect(key: string): Promise<Inspection>;
  /** The policy, resolved and frozen; of a combination, the one with the smallest capacity. */
  getPolicy(): ResolvedPolicy;
  /** Of a combination: every policy, in the order given. */
  getPolicies?(): readonly ResolvedPolicy[];
  /** Whether decisions are exact or approximate by nature. */
  readonly consistency: Consistency;
  /** Ends the limiter; later calls fail. Never closes a store or client it was given. */
  dispose(): Promise<void>;
}

/** A limiter whose store answers in the same turn. */
export interface SyncRateLimiter extends RateLimiter {
  /** Takes `cost` (1 if not given) from the key's budget if it fits, without a promise. */
  consumeSync(key: string, cost?: number): Decision;
}
