/** Two rings: a cheap one that turns floods away, and an exact one that decides what it lets through. */
import { checkCost, checkKey } from "../core/charge.ts";
import type { Decision, Denied, Inspection } from "../core/decision.ts";
import { type ErrorCode, optionError, rejectDisposed, SluiceError } from "../core/errors.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";

/**
 * A limiter that asks `first`, and then `exact`. What `first` denies is denied; what it allows is for `exact` to say.
 * It never admits more than `exact` does. When `first` can't be asked, `exact` decides alone.
 */
export function hybridRateLimiter(first: RateLimiter, exact: RateLimiter): RateLimiter {
  for (const [option, limiter] of Object.entries({ first, exact })) {
    if (typeof limiter === "object" && limiter !== null && typeof limiter.consume === "function") continue;
    throw optionError("invalid-limiter", option, "a limiter", limiter);
  }
  if (exact.consistency !== "exact") {
    throw optionError("invalid-limiter", "exact", "a limiter that is exact", exact.consistency);
  }
  return new Hybrid(first, exact);
}

class Hybrid implements RateLimiter {
  // It admits no more than an exact limiter, and may deny what that would admit.
  readonly consistency = "approximate";
  private readonly first: RateLimiter;
  private readonly exact: RateLimiter;
  private readonly policies: readonly ResolvedPolicy[];
  /** What the first ring decided, by the decision that was returned. */
  private readonly firstDecisions: WeakMap<Decision, Decision> = new WeakMap();
  private disposed = false;

  constructor(first: RateLimiter, exact: RateLimiter) {
    this.first = first;
    this.exact = exact;
    this.policies = Object.freeze([first, exact].flatMap((ring) => ring.getPolicies?.() ?? [ring.getPolicy()]));
  }

  async consume(key: string, cost = 1): Promise<Decision> {
    this.check(key, cost);
    const first = await this.onFirst((ring) => ring.consume(key, cost));
    if (first && !first.allowed) return first;
    const giveBack = () =>
      this.onFirst((ring) => (first && cost > 0 ? ring.refund(key, cost, first) : Promise.resolve()));
    try {
      const decision = await this.exact.consume(key, cost);
      if (!decision.allowed) await giveBack();
      else if (first) this.firstDecisions.set(decision, first);
      return decision;
    } catch (error) {
      await giveBack();
      throw error;
    }
  }

  async peek(key: string, cost = 1): Promise<Decision> {
    this.check(key, cost);
    const first = await this.onFirst((ring) => ring.peek(key, cost));
    return first && !first.allowed ? first : this.exact.peek(key, cost);
  }

  async refund(key: string, cost: number, decision?: Decision): Promise<void> {
    this.check(key, cost);
    const first = decision && this.firstDecisions.get(decision);
    await Promise.all([
      // A decision that the first ring had no part in took nothing from it.
      decision && !first ? undefined : this.onFirst((ring) => ring.refund(key, cost, first)),
      this.exact.refund(key, cost, decision),
    ]);
  }

  async reset(key: string): Promise<void> {
    this.check(key, 0);
    await Promise.all([this.onFirst((ring) => ring.reset(key)), this.exact.reset(key)]);
  }

  async inspect(key: string): Promise<Inspection> {
    this.check(key, 0);
    return this.exact.inspect(key);
  }

  getPolicy(): ResolvedPolicy {
    return this.exact.getPolicy();
  }

  getPolicies(): readonly ResolvedPolicy[] {
    return this.policies;
  }

  /** Both rings are somebody else's. */
  async dispose(): Promise<void> {
    this.disposed = true;
  }

  private check(key: string, cost: number): void {
    if (this.disposed) rejectDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }

  /**
   * Does something with the first ring, if that can be done: a binding can only be asked, and for one at a time. What
   * it says without its store is about itself, and no verdict on the key.
   */
  private async onFirst<T>(action: (first: RateLimiter) => Promise<T>): Promise<T | undefined> {
    try {
      const answer = await action(this.first);
      const { degraded, unavailable } = (answer ?? {}) as Partial<Denied>;
      return degraded || unavailable ? undefined : answer;
    } catch (error) {
      if (error instanceof SluiceError && PASSED_BY.includes(error.code)) return undefined;
      throw error;
    }
  }
}

const PASSED_BY: readonly ErrorCode[] = ["unsupported", "invalid-cost", "store-unavailable"];
