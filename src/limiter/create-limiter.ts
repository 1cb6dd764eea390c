/** Joins a policy and a store into a limiter. */
import { checkCost, checkKey, isCost, type Mode } from "../core/charge.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { refuseDisposed, SluiceError } from "../core/errors.ts";
import { checkOptions } from "../core/options.ts";
import type { Policy, ResolvedPolicy } from "../core/policy.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import { type Buckets, type Consistency, isSync, type Store, type SyncStore } from "../core/store.ts";
import { resolvePolicy, type Terms } from "../core/terms.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import type { Binding, BoundLimiter } from "./binding.ts";
import { claimName, releaseName } from "./names.ts";

/** What a limiter is made of. */
export interface LimiterOptions<S extends Store = Store> {
  /** What may be spent, and how fast. */
  policy: Policy;
  /** Where buckets live. Default: a memory store of its own. */
  store?: S;
}

/** A limiter for one policy. Without a store it keeps its buckets in this process's memory. */
export function createLimiter(options: LimiterOptions<SyncStore>): SyncRateLimiter;
export function createLimiter(options: LimiterOptions): RateLimiter;
export function createLimiter(options: LimiterOptions): RateLimiter {
  checkOptions("createLimiter", options, ["policy", "store"]);
  const { store } = options;
  if (store !== undefined && typeof (store as Store | null)?.take !== "function") {
    const expected = "a store, such as memoryStore()";
    throw new SluiceError("invalid-option", "store", expected, store);
  }
  const terms = resolvePolicy(options.policy);
  if (store === undefined) return limiterOwning(memoryStore(), terms);
  claimName(store, terms);
  return limiterOn(store, terms, async () => releaseName(store, terms));
}

/** A limiter that disposes of its store with itself. */
export function limiterOwning(store: SyncStore, terms: Terms): SyncRateLimiter {
  return new SyncLimiter(store, terms, () => store.dispose());
}

function limiterOn(store: Store, terms: Terms, release: () => Promise<void>): RateLimiter {
  return isSync(store) ? new SyncLimiter(store, terms, release) : new Limiter(store, terms, release);
}

class Limiter<S extends Store = Store> implements BoundLimiter {
  readonly store: S;
  readonly terms: Terms;
  /** What is given up with the limiter. */
  private readonly release: () => Promise<void>;
  protected disposed = false;

  constructor(store: S, terms: Terms, release: () => Promise<void>) {
    this.store = store;
    this.terms = terms;
    this.release = release;
  }

  get consistency(): Consistency {
    return this.store.consistency;
  }

  consume(key: string, cost = 1): Promise<Decision> {
    return this.charge(key, cost, "take");
  }

  peek(key: string, cost = 1): Promise<Decision> {
    return this.charge(key, cost, "peek");
  }

  async refund(key: string, cost: number): Promise<void> {
    await this.charge(key, cost, "refund");
  }

  async reset(key: string): Promise<void> {
    this.check(key, 0);
    await this.store.reset(this.terms, key);
  }

  async inspect(key: string): Promise<Inspection> {
    this.check(key, 0);
    return this.store.inspect(this.terms, key);
  }

  getPolicy(): ResolvedPolicy {
    return this.terms.policy;
  }

  async dispose(): Promise<void> {
    if (this.disposed) return;
    this.disposed = true;
    await this.release();
  }

  bindings(): readonly Binding[] {
    if (this.disposed) refuseDisposed("limiter");
    return [this];
  }

  protected check(key: string, cost: number): void {
    if (this.disposed) refuseDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }

  private async charge(key: string, cost: number, mode: Mode): Promise<Decision> {
    this.check(key, cost);
    const [decisions] = await this.store.take([[{ terms: this.terms, key, cost, mode }]]);
    return (decisions as Decision[])[0] as Decision;
  }
}

class SyncLimiter extends Limiter<SyncStore> implements SyncRateLimiter {
  private readonly buckets: Buckets;

  constructor(store: SyncStore, terms: Terms, release: () => Promise<void>) {
    super(store, terms, release);
    this.buckets = store.open(terms);
  }

  consumeSync(key: string, cost = 1): Decision {
    // The short form of `check`, which then says what is wrong.
    if (this.disposed || typeof key !== "string" || key === "" || !isCost(cost)) this.check(key, cost);
    return this.buckets.take(key, cost);
  }

  override consume(key: string, cost = 1): Promise<Decision> {
    // Not an async function: that would cost as much again as the decision.
    try {
      return Promise.resolve(this.consumeSync(key, cost));
    } catch (error) {
      return Promise.reject(error);
    }
  }
}
