/** The interface of limiters. */
import type { Decision, Inspection } from "./decision.ts";
import type { ResolvedPolicy } from "./policy.ts";
import type { Consistency } from "./store.ts";

/** Decides whether a key may spend a cost now. */
export interface RateLimiter {
  /** Takes `cost` (default 1) from the key's budget if it fits. A denial takes nothing. */
  consume(key: string, cost?: number): Promise<Decision>;
  /** The same without a promise. Only if the store is synchronous. */
  consumeSync?(key: string, cost?: number): Decision;
  /** Returns what `consume` would decide, with the current numbers. Takes nothing. */
  peek(key: string, cost?: number): Promise<Decision>;
  /**
   * Refunds `cost`, never above full. With the decision that took it, nothing is refunded once that grant has expired, and
   * no more than is still in use of it. Without it, a late refund frees what others have spent since.
   */
  refund(key: string, cost: number, decision?: Decision): Promise<void>;
  /** Deletes the key's bucket with its holds and strikes: its budget is full again. */
  reset(key: string): Promise<void>;
  /** Returns what is stored for the key, for people to read. */
  inspect(key: string): Promise<Inspection>;
  /** Returns the policy, resolved and frozen; of a combination, the one with the smallest capacity. */
  getPolicy(): ResolvedPolicy;
  /** Of a combination: returns every policy, in the order given. */
  getPolicies?(): readonly ResolvedPolicy[];
  /** Whether decisions are exact or approximate. */
  readonly consistency: Consistency;
  /** Ends the limiter; later calls reject. Never closes a store or client that it was given. */
  dispose(): Promise<void>;
}

/** A limiter on a synchronous store. */
export interface SyncRateLimiter extends RateLimiter {
  /** Takes `cost` (default 1) from the key's budget if it fits, without a promise. */
  consumeSync(key: string, cost?: number): Decision;
}
