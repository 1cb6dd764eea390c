/** Stands between limiters and a store that can fail: deadline, circuit breaker, and what this process knows of it. */
import type { Group } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { CompiledPolicy } from "../core/compile.ts";
import { copyKey } from "../core/copy-key.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { optionError, SluiceError } from "../core/errors.ts";
import { type CallState, originOf, type Store, type SyncStore } from "../core/store.ts";
import { emitProcessWarning } from "../core/warnings.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { ALL_SHARDS, Breaker, type Shard, type Watcher } from "./breaker.ts";
import { Deadlines, type SharedError, type Timed } from "./deadlines.ts";
import { DenialCache } from "./denial-cache.ts";
import { Invalidations } from "./invalidations.ts";

const guards = new WeakMap<object, StoreHealth>();

/** The one guard of a store, or of several that are one and the same. */
export function healthOf(store: Store): StoreHealth {
  const origin = originOf(store);
  let guard = guards.get(origin);
  if (!guard) guards.set(origin, (guard = new StoreHealth()));
  return guard;
}

/** Why the store gave no answer. A value and not a rejection: in an outage there are many, and errors are dear. */
export class StoreFailure {
  readonly error: SluiceError;
  /** Which part of the store it is about, where parts fail by themselves. */
  readonly part: Shard;

  constructor(error: SluiceError, part: Shard = ALL_SHARDS) {
    this.error = error;
    this.part = part;
  }
}

/** So many spoilt buckets are told of, each once: they stay spoilt until somebody mends them. */
const MAX_CORRUPT_KEYS = 1000;

/** Of so many policies it is known what they denied. */
const MAX_POLICIES = 256;
/** So many limiters hear of transitions. */
const MAX_WATCHERS = 256;

/** All limiters on one store share its guard, because they share its fate. */
export class StoreHealth {
  readonly breaker: Breaker = new Breaker();
  readonly invalidations: Invalidations = new Invalidations();
  private readonly deadlines: Deadlines = new Deadlines();
  private fallback: SyncStore | undefined;
  private warned: string | undefined;
  private hasAnswered = false;
  private isWarnedOfOutage = false;
  private isWarnedOfForeign = false;
  private readonly denied: Map<string, DenialCache> = new Map();
  /** The buckets that were found spoilt and told of. */
  private readonly corruptKeys: Set<string> = new Set();

  /** Buckets of this process for as long as the store is away. They are kept when it is back: it may go again. */
  get local(): SyncStore {
    this.fallback ??= memoryStore();
    return this.fallback;
  }

  /** What a policy has denied lately: the same for all limiters of it, also where each request makes its own. */
  denialsOf({ id, limit, windowMs, unitsPerToken }: CompiledPolicy): DenialCache {
    const name = `${limit} ${windowMs} ${unitsPerToken} ${id}`;
    let denials = this.denied.get(name);
    if (!denials) this.denied.set(copyKey(name), (denials = new DenialCache()));
    if (this.denied.size > MAX_POLICIES) this.denied.delete(this.denied.keys().next().value as string);
    return denials;
  }

  /** One group of charges, until `due`. The answer is a list of one list, as the store gives it. */
  apply(store: Store, group: Group, due: number): Promise<Decision[][] | StoreFailure> {
    return this.attempt(shardOf(store, group[0]?.key ?? ""), due, (waiting) => store.apply([group], waiting));
  }

  /** Gives charges back, each on its own: a refund of a long log is as much as one call should do. */
  refund(store: Store, charges: Group, due: number): Promise<Decision[][] | StoreFailure> {
    const groups = charges.map((charge) => [charge]);
    return this.clearing(charges, () =>
      this.attempt(shardOf(store, charges[0]?.key ?? ""), due, (waiting) => store.apply(groups, waiting)),
    );
  }

  /** Forgets a key, in the store and in the fallback. */
  async reset(
    store: Store,
    policy: CompiledPolicy,
    localPolicy: CompiledPolicy,
    key: string,
    due: number,
  ): Promise<void> {
    await this.fallback?.reset(localPolicy, key);
    const answer = await this.clearing([{ policy, key }], () =>
      this.attempt(shardOf(store, key), due, () => store.reset(policy, key)),
    );
    if (answer instanceof StoreFailure) throw answer.error;
  }

  async inspect(store: Store, policy: CompiledPolicy, key: string, due: number): Promise<Inspection> {
    const answer = await this.attempt(shardOf(store, key), due, () => store.inspect(policy, key));
    if (answer instanceof StoreFailure) throw answer.error;
    return answer;
  }

  /** Tells transitions from now on. */
  watch(watcher: Watcher): void {
    // Limiters that are made for every request are never disposed of: the first ones are those that last.
    if (this.breaker.watchers.size < MAX_WATCHERS) this.breaker.watchers.add(watcher);
  }

  /** What the store itself has to say, if that is news. */
  nextWarning({ warning }: Store): string | undefined {
    if (warning === this.warned) return undefined;
    this.warned = warning;
    return warning;
  }

  /**
   * Warns once that decisions are made without the store: if it has never answered, or if its circuit is open. Not if a
   * limiter on the store has `onEvent`, which is called with `store-down`.
   */
  warnUnavailable({ error, part }: StoreFailure, effect: string): void {
    if (this.breaker.watchers.size > 0) return;
    if (error.code === "foreign-value") {
      if (this.isWarnedOfForeign) return;
      this.isWarnedOfForeign = true;
      const message = `A value in the store was not written by sluice, so ${effect} Set onEvent to see its key.`;
      emitProcessWarning("SLUICE_FOREIGN_VALUE", message);
      return;
    }
    // A slow first answer is no outage, but a client that is not connected, or a call that fails, is one at once.
    const isFirstFailure = !this.hasAnswered && (error.option === "client" || error.cause !== undefined);
    if (this.isWarnedOfOutage || !(isFirstFailure || this.breaker.isOpen(part))) return;
    this.isWarnedOfOutage = true;
    const message = `The store is unavailable, so ${effect} Cause: ${error.message}. Set onEvent to follow outages.`;
    emitProcessWarning("SLUICE_STORE_UNAVAILABLE", message);
  }

  /** Whether this is the first that is heard of a spoilt bucket. */
  isFirstReport({ code, option }: SluiceError): boolean {
    if (code !== "foreign-value" || this.corruptKeys.has(option) || this.corruptKeys.size >= MAX_CORRUPT_KEYS)
      return false;
    this.corruptKeys.add(copyKey(option));
    return true;
  }

  unwatch(watcher: Watcher): void {
    this.breaker.watchers.delete(watcher);
  }

  /** Does what frees budget of some keys: what was denied to them before stands no longer, and is asked anew. */
  private async clearing<T>(
    charges: readonly { policy: CompiledPolicy; key: string }[],
    free: () => Promise<T>,
  ): Promise<T> {
    const mark = (): void => {
      for (const { policy, key } of charges) this.invalidations.record(policy.id, key, monotonicMs());
    };
    mark();
    const answer = await free();
    // Once more: what was asked meanwhile may have been denied before this was done.
    mark();
    return answer;
  }

  /** Asks the store, unless that part of it is known to be down, and waits no longer than until `due`. */
  private attempt<T>(part: Shard, due: number, ask: (waiting: CallState) => Promise<T>): Promise<T | StoreFailure> {
    const refusal = this.breaker.refusal(part, monotonicMs());
    if (refusal) return Promise.resolve(new StoreFailure(refusal, part));
    return new Promise((resolve, reject) => {
      const call = new Call<T>(this, part, due, resolve, reject);
      this.deadlines.add(call);
      try {
        Promise.resolve(ask(call)).then(
          (answer) => call.passed(answer),
          (error) => call.failed(error),
        );
      } catch (error) {
        call.failed(error);
      }
    });
  }

  /** Notes that nobody waits for a call any more. */
  settled(call: Timed): void {
    this.deadlines.remove(call);
  }

  /** Notes that the store has answered a call, and so is not down. */
  answered(call: Timed, part: Shard): void {
    this.deadlines.remove(call);
    this.hasAnswered = true;
    this.breaker.passed(part, monotonicMs());
  }

  /** Notes that it has not. */
  missed(call: Timed, part: Shard, error: SluiceError, tries: boolean): StoreFailure {
    this.deadlines.remove(call);
    this.breaker.failed(part, monotonicMs(), error, tries);
    return new StoreFailure(error, part);
  }
}

/** One question to the store. It is settled once, by the answer, an error or the deadline. */
class Call<T> implements Timed, CallState {
  readonly due: number;
  abandoned = false;
  place = 0;
  private readonly guard: StoreHealth;
  private readonly part: Shard;
  /** Whether it was let through to try a store that was down. */
  private readonly tries: boolean;
  private readonly resolve: (answer: T | StoreFailure) => void;
  private readonly reject: (error: SluiceError) => void;

  constructor(
    guard: StoreHealth,
    part: Shard,
    due: number,
    resolve: (answer: T | StoreFailure) => void,
    reject: (error: SluiceError) => void,
  ) {
    this.guard = guard;
    this.part = part;
    this.due = due;
    this.tries = guard.breaker.isOpen(part);
    this.resolve = resolve;
    this.reject = reject;
  }

  passed(answer: T): void {
    if (this.abandoned) return;
    this.abandoned = true;
    this.guard.answered(this, this.part);
    this.resolve(answer);
  }

  failed(error: unknown): void {
    if (this.abandoned) return;
    this.abandoned = true;
    if (!(error instanceof SluiceError) || error.code === "store-unavailable") {
      this.resolve(this.guard.missed(this, this.part, unavailable(error), this.tries));
      return;
    }
    if (error.isCallerError) {
      // It says nothing about the store.
      this.guard.settled(this);
      this.reject(error);
      return;
    }
    this.guard.answered(this, this.part);
    this.resolve(new StoreFailure(error, this.part));
  }

  expire(shared: SharedError): void {
    if (this.abandoned) return;
    // The breaker counts errors, and an open one needs no more of them: stack traces are most of the cost.
    if (!this.guard.breaker.isOpen(this.part)) this.failed(deadlineExceeded().error);
    else this.failed((shared.error ??= deadlineExceeded().error));
  }
}

/** The part of a store that a key lives in, where parts fail by themselves. */
function shardOf(store: Store, key: string): Shard {
  try {
    return store.failsPerShard ? (store.shardOf?.(key) ?? ALL_SHARDS) : ALL_SHARDS;
  } catch {
    // A function of a user's that throws: the store says so itself.
    return ALL_SHARDS;
  }
}

/** What a call gets whose time is over. */
function deadlineExceeded(): StoreFailure {
  return new StoreFailure(optionError("store-unavailable", "store", "an answer within deadlineMs"));
}

function unavailable(cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  // Some clients put all that they sent into their message.
  const message = String((cause as Error)?.message ?? cause);
  const [told = ""] = message.split(/,? command was:/);
  const short = told.length > 200 ? `${told.slice(0, 200)}...` : told;
  const error = optionError("store-unavailable", "store", `an answer, not "${short}"`);
  error.cause = cause;
  return error;
}
