/** What an isolate knows of the counters in KV, and what it says in their values. */
import { isState } from "../../../algorithms/algorithm.ts";
import { algorithms } from "../../../algorithms/algorithms.ts";
import { usage } from "../../../algorithms/step.ts";
import { monotonicMs } from "../../../core/clock.ts";
import type { CompiledPolicy } from "../../../core/compile.ts";
import { copyKey } from "../../../core/copy-key.ts";
import type { Decision } from "../../../core/decision.ts";
import type { AlgorithmName } from "../../../core/policy.ts";
import type { KVNamespaceLike } from "../platform.ts";
import { inPresent, mergeStates } from "./merge-states.ts";

/** So many numbers are held, of all buckets. */
const MAX_NUMBERS = 500_000;
/** What an entry costs besides its numbers, in numbers. */
const OVERHEAD = 32;
/** So many accounts are kept whether they count or not: an older one that is read late is then known to be older. */
const FEW = 64;
/** What is drawn when an entry has to go; the one with the most budget left goes. */
const CANDIDATES = 8;
/** A request that takes longer than this was cancelled: the platform never tells it the result of a read. */
const MAX_REQUEST_MS = 10_000;
/** After so long a read shows what was written, if nobody has overwritten it. */
const SEEN_MS = 60_000;

/** What one isolate has granted. The number grows whenever the state changes. */
export interface Account {
  readonly version: number;
  /** Absent: nothing that counts. */
  readonly state: readonly number[] | undefined;
}

/** What a value says. */
interface Value {
  readonly accounts: ReadonlyMap<string, Account>;
  /** When it was reset, in milliseconds since the epoch; 0 if it never was. */
  readonly resetAt: number;
  /** Until when it is kept. */
  readonly until: number;
}

/** One bucket. Times are elapsed milliseconds, but for `resetAt`. */
export class Entry {
  /** The stored key of the bucket. */
  readonly bucket: string;
  /** Its index in the list of all entries; -1 when it was evicted. */
  place = -1;
  /** How many requests use it, and when the last of them began. */
  requests = 0;
  requestedAt: number = Number.NEGATIVE_INFINITY;
  /** The part of the limit in use at the last decision, and when all of it will be free again. */
  private used = 0;
  private freeAt: number = Number.NEGATIVE_INFINITY;
  /** The name of its account. What is given up and begun again is another one, and the old account somebody else's. */
  readonly id: string = crypto.randomUUID().slice(0, 13);
  /** What this isolate has granted. It is never forgotten for what somebody else has written. */
  own: Account = { version: 0, state: undefined };
  readAt: number = Number.NEGATIVE_INFINITY;
  writtenAt: number = Number.NEGATIVE_INFINITY;
  /** Whether something has to be written. */
  dirty = false;
  /** Until when a write is expected that was put off. */
  expectedBy: number = Number.NEGATIVE_INFINITY;
  /** When it was reset, in milliseconds since the epoch; 0 if that matters no more. */
  resetAt = 0;
  /** What it was taken to hold when it was last weighed. */
  weight = 0;
  /** What other isolates have granted, as far as is known. */
  private readonly others: Map<string, Account> = new Map();

  constructor(bucket: string) {
    this.bucket = copyKey(bucket);
  }

  /** Upper bound of the fraction in use. */
  usage(passed: number): number {
    return passed < this.freeAt ? this.used : 0;
  }

  /** Notes how much is in use by a decision. */
  decided({ limit, remaining, resetAfterMs }: Decision, passed: number): void {
    this.used = 1 - remaining / limit;
    this.freeAt = passed + resetAfterMs;
  }

  /** How many numbers it holds. */
  get size(): number {
    let size = OVERHEAD + (this.own.state?.length ?? 0);
    for (const { state } of this.others.values()) size += OVERHEAD + (state?.length ?? 0);
    return size;
  }

  /** What is granted in all, if anything. */
  total(policy: CompiledPolicy): readonly number[] | undefined {
    let total: readonly number[] = [];
    for (const { state } of [this.own, ...this.others.values()]) {
      if (state) total = mergeStates(total, state, policy);
    }
    return total.length > 0 ? total : undefined;
  }

  /** Brings what lies in the future into the present, for good: it would be there again with every look. */
  heal(policy: CompiledPolicy, now: number): void {
    for (const [id, { version, state }] of this.accounts()) {
      const healed = state && inPresent(state, policy, now);
      if (!healed || healed === state) continue;
      if (id === this.id) this.change(healed);
      else this.others.set(id, { version, state: healed });
    }
  }

  /** The accounts of all isolates. */
  accounts(): [string, Account][] {
    return [...this.others, [this.id, this.own]];
  }

  /** This isolate has granted something, or taken it back. */
  change(state: readonly number[]): void {
    const empty = state.every((cell) => cell === 0);
    this.own = { version: this.own.version + 1, state: empty ? undefined : state };
    this.dirty = true;
  }

  /** Takes over what is newer in a value, and sees to it that what is older there is written again. */
  learn({ accounts, resetAt: told }: Value, policy: CompiledPolicy, now: number, passed: number): void {
    // A reset matters for as long as somebody could still count what was before it.
    const stands = (time: number) => (time + 2 * policy.windowMs < now ? 0 : time);
    this.resetAt = stands(this.resetAt);
    const resetAt = stands(told);
    const { version = 0 } = accounts.get(this.id) ?? {};
    const overwritten = version < this.own.version && this.own.state !== undefined;
    if (passed - this.writtenAt > SEEN_MS && (overwritten || resetAt < this.resetAt)) this.dirty = true;
    if (resetAt < this.resetAt) return;
    if (resetAt > this.resetAt) this.forget(resetAt);
    for (const [id, account] of accounts) {
      if (id !== this.id && account.version > (this.others.get(id)?.version ?? 0)) this.others.set(id, account);
    }
    if (this.others.size <= FEW) return;
    // What counts no more need not be copied for ever.
    for (const [id, { state }] of this.others) {
      if (!state || usageOf(state, policy, now) === 0) this.others.delete(id);
    }
  }

  /** Nothing of before counts any more. */
  forget(resetAt: number): void {
    this.resetAt = resetAt;
    this.others.clear();
    this.own = { version: this.own.version + 1, state: undefined };
    this.dirty = false;
  }

  /** It is being written now. */
  writing(passed: number): void {
    this.dirty = false;
    this.writtenAt = passed;
    this.expectedBy = Number.NEGATIVE_INFINITY;
  }
}

/** What this isolate knows of one namespace. */
export class Isolate {
  /** Why writes fail, while they do. */
  warning: string | undefined;
  private readonly entries: Map<string, Entry> = new Map();
  /** The same without gaps, so that any of them can be drawn at random. */
  private readonly list: Entry[] = [];
  private numbers = 0;

  /**
   * Runs a request on the entries of some buckets. They are not evicted meanwhile: a second entry of the same bucket
   * would grant its limit again.
   */
  async use<T>(buckets: readonly string[], work: (entries: readonly Entry[]) => Promise<T>): Promise<T> {
    const entries = buckets.map((bucket) => this.entryOf(bucket));
    for (const entry of entries) {
      entry.requests++;
      entry.requestedAt = monotonicMs();
    }
    for (const entry of entries) this.weigh(entry);
    try {
      return await work(entries);
    } finally {
      for (const entry of entries) entry.requests--;
    }
  }

  /** Notes how much an entry holds. If all of them hold too much, others are evicted. */
  weigh(entry: Entry): void {
    if (entry.place < 0) return;
    this.numbers -= entry.weight;
    entry.weight = entry.size;
    this.numbers += entry.weight;
    while (this.numbers > MAX_NUMBERS && this.evictOne()) {}
  }

  private entryOf(bucket: string): Entry {
    const found = this.entries.get(bucket);
    if (found) return found;
    const entry = new Entry(bucket);
    entry.place = this.list.push(entry) - 1;
    this.entries.set(entry.bucket, entry);
    return entry;
  }

  /**
   * Evicts the entry with the most budget left of a random few, if one of them may go. Not LRU: a denied client could
   * evict its own count by sending new keys. Of equals, one that has nothing to write.
   */
  private evictOne(): boolean {
    const now = monotonicMs();
    let chosen: Entry | undefined;
    for (let i = 0; i < CANDIDATES; i++) {
      const entry = this.list[Math.floor(Math.random() * this.list.length)] as Entry;
      if (entry.requests > 0 && now - entry.requestedAt < MAX_REQUEST_MS) continue;
      const less = chosen ? entry.usage(now) - chosen.usage(now) : -1;
      if (less < 0 || (less === 0 && !entry.dirty)) chosen = entry;
    }
    if (!chosen) return false;
    this.entries.delete(chosen.bucket);
    this.numbers -= chosen.weight;
    const last = this.list.pop() as Entry;
    if (last !== chosen) {
      this.list[chosen.place] = last;
      last.place = chosen.place;
    }
    chosen.place = -1;
    return true;
  }
}

const isolates = new WeakMap<KVNamespaceLike, Isolate>();

/** What this isolate knows of a namespace: the same for all stores on it. */
export function isolateOf(kv: KVNamespaceLike): Isolate {
  let isolate = isolates.get(kv);
  if (!isolate) isolates.set(kv, (isolate = new Isolate()));
  return isolate;
}

/** What a value says. One that no store has written says nothing. */
export function readValue(text: string | null, algorithm: AlgorithmName): Value {
  const accounts = new Map<string, Account>();
  const { isolates = {}, resetAt, until } = parse(text);
  for (const [id, account] of Object.entries(isolates ?? {})) {
    const [version, ...state] = Array.isArray(account) ? (account as unknown[]) : [];
    if (!isCount(version) || !state.every(isCount)) continue;
    if (state.length === 0 || isState(state, algorithms[algorithm])) {
      accounts.set(id, { version, state: state.length > 0 ? state : undefined });
    }
  }
  return { accounts, resetAt: isCount(resetAt) ? resetAt : 0, until: isCount(until) ? until : 0 };
}

/** The value of an entry. */
export function writeValue(entry: Entry, until: number): string {
  const isolates: Record<string, readonly number[]> = {};
  for (const [id, { version, state = [] }] of entry.accounts()) isolates[id] = [version, ...state];
  return JSON.stringify(entry.resetAt > 0 ? { isolates, until, resetAt: entry.resetAt } : { isolates, until });
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function parse(text: string | null): { isolates?: object; resetAt?: unknown; until?: unknown } {
  try {
    const parsed: unknown = JSON.parse(text ?? "null");
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}

function usageOf(state: readonly number[], policy: CompiledPolicy, now: number): number {
  const algorithm = algorithms[policy.algorithm];
  return usage({ algorithm, cells: algorithm.list ? [[...state]] : [...state], at: 0, policy }, now);
}
