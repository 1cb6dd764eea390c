/** The interface of limiters. */
import type { Decision, Inspection } from "./decision.ts";
import type { HoldDecision, HoldOptions, Settlement } from "./hold.ts";
import type { ResolvedPolicy } from "./policy.ts";
import type { Duration } from "./rate.ts";
import type { Consistency } from "./store.ts";

/** Decides whether a key may spend a cost now. */
export interface RateLimiter {
  /** Takes `cost` (default 1) from the key's budget if it fits. A denial takes nothing. */
  consume(key: string, cost?: number): Promise<Decision>;
  /** The same without a promise. Only if the store is synchronous. */
  consumeSync?(key: string, cost?: number): Decision;
  /** `hold` without a promise. Only if the store is synchronous. */
  holdSync?(key: string, amount?: number, options?: HoldOptions): HoldDecision;
  /** Returns what `consume` would decide, with the current numbers. Takes nothing. */
  peek(key: string, cost?: number): Promise<Decision>;
  /**
   * Refunds `cost`, never above full. With the decision that took it, nothing is refunded once that grant has expired, and
   * no more than is still in use of it. Without it, a late refund frees what others have spent since.
   */
  refund(key: string, cost: number, decision?: Decision): Promise<void>;
  /**
   * Reserves `amount` (default 1) if it fits, until it is settled or ends. A held amount can't be spent and doesn't refill.
   * It is charged when it is settled, with the actual cost, or in full when the hold ends.
   */
  hold(key: string, amount?: number, options?: HoldOptions): Promise<HoldDecision>;
  /** Settles a hold by its id, for example from another process. */
  settle(key: string, id: string, actual: number): Promise<Settlement>;
  /**
   * Records strikes (default 1), such as wrong passwords, and returns the state after them: denied if the key is blocked
   * now. No effect while it is blocked. Only with a penalty policy.
   */
  strike?(key: string, times?: number): Promise<Decision>;
  /** Blocks a key for at least `forMs`. Only with a penalty policy. */
  block?(key: string, forMs: Duration): Promise<Decision>;
  /** Ends a block and returns whether there was one. Strikes remain; `reset` clears them. Only with a penalty policy. */
  unblock?(key: string): Promise<boolean>;
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

/** A limiter with a penalty policy. */
export type PenaltyLimiter = RateLimiter & Required<Pick<RateLimiter, "strike" | "block" | "unblock">>;

/** A limiter on a synchronous store. */
export interface SyncRateLimiter extends RateLimiter {
  /** Takes `cost` (default 1) from the key's budget if it fits, without a promise. */
  consumeSync(key: string, cost?: number): Decision;
  /** Reserves `amount` (default 1) if it fits, without a promise. */
  holdSync(key: string, amount?: number, options?: HoldOptions): HoldDecision;
}
