/** What an isolate knows of the counters in KV, and what it says in their values. */
import { algorithms } from "../../algorithms/algorithms.ts";
import { usage } from "../../algorithms/step.ts";
import { hour } from "../../core/clock.ts";
import type { AlgorithmName } from "../../core/policy.ts";
import type { Terms } from "../../core/terms.ts";
import { mergeStates } from "./merge-states.ts";
import type { KVNamespaceLike } from "./platform.ts";
import { isState } from "./state-text.ts";

/** So many numbers are held, of the buckets that were used last. */
const MOST_NUMBERS = 500_000;
/** What an entry costs besides its numbers, in numbers. */
const OVERHEAD = 32;
/** So many accounts are kept whether they count or not: an older one that is read late is then known to be older. */
const FEW = 16;
/** So many of the oldest are looked at for one that has nothing to write. */
const CANDIDATES = 8;

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
  /** What this isolate has granted. It is never forgotten for what somebody else has written. */
  own: Account = { version: 0, state: undefined };
  readAt: number = Number.NEGATIVE_INFINITY;
  writtenAt: number = Number.NEGATIVE_INFINITY;
  /** Whether something has to be written. */
  dirty = false;
  /** Until when a write is expected that was put off. */
  expectedBy: number = Number.NEGATIVE_INFINITY;
  resetAt = 0;
  /** What it was taken to hold when it was last used. */
  weight = 0;
  /** What other isolates have granted, as far as is known. */
  private readonly others: Map<string, Account> = new Map();
  private readonly id: string;
  /** The sum of the others, until one of them changes. */
  private sum: readonly number[] | undefined;

  constructor(id: string) {
    this.id = id;
  }

  /** How many numbers it holds. */
  get size(): number {
    let size = OVERHEAD + (this.own.state?.length ?? 0);
    for (const { state } of this.others.values()) size += OVERHEAD + (state?.length ?? 0);
    return size;
  }

  /** What is granted in all, if anything. */
  total(terms: Terms): readonly number[] | undefined {
    this.sum ??= [...this.others.values()].reduce<readonly number[]>(
      (sum, { state = [] }) => mergeStates(sum, state, terms),
      [],
    );
    const total = mergeStates(this.sum, this.own.state ?? [], terms);
    return total.length > 0 ? total : undefined;
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

  /** Takes over what is newer in a value. */
  learn({ accounts, resetAt }: Value, terms: Terms): void {
    if (resetAt < this.resetAt) return;
    if (resetAt > this.resetAt) this.forget(resetAt);
    for (const [id, account] of accounts) {
      if (id === this.id || account.version <= (this.others.get(id)?.version ?? 0)) continue;
      this.others.set(id, account);
      this.sum = undefined;
    }
    if (this.others.size <= FEW) return;
    // What counts no more need not be copied for ever.
    for (const [id, { state }] of this.others) {
      if (!state || usageOf(state, terms) === 0) this.others.delete(id);
    }
  }

  /** Nothing of before counts any more. */
  forget(resetAt: number): void {
    this.resetAt = resetAt;
    this.others.clear();
    this.sum = undefined;
    this.own = { version: this.own.version + 1, state: undefined };
    this.dirty = false;
  }

  /** It is being written now. */
  writing(now: number): void {
    this.dirty = false;
    this.writtenAt = now;
    this.expectedBy = Number.NEGATIVE_INFINITY;
  }
}

/** The entries of one isolate, which has a name among others. */
export class Isolate {
  // Made at the first request: while a Worker loads there is no chance.
  readonly id: string = crypto.randomUUID().slice(0, 13);
  /** Why a write failed for which nobody waited: the next call is told. */
  failure: Error | undefined;
  private readonly entries: Map<string, Entry> = new Map();
  private numbers = 0;

  /** The entry of a bucket. If there are too many, those go that were not used for longest. */
  entryOf(bucket: string): Entry {
    const entry = this.entries.get(bucket) ?? new Entry(this.id);
    this.remove(bucket, entry);
    this.entries.set(bucket, entry);
    entry.weight = entry.size;
    this.numbers += entry.weight;
    while (this.numbers > MOST_NUMBERS && this.entries.size > 1) this.giveUpOne();
    return entry;
  }

  /** Of the oldest few one that has nothing to write, if there is one. */
  private giveUpOne(): void {
    const oldest: [string, Entry][] = [];
    for (const pair of this.entries) if (oldest.push(pair) === CANDIDATES) break;
    this.remove(...(oldest.find(([, { dirty }]) => !dirty) ?? (oldest[0] as [string, Entry])));
  }

  private remove(bucket: string, entry: Entry): void {
    if (this.entries.delete(bucket)) this.numbers -= entry.weight;
  }
}

const isolates = new WeakMap<KVNamespaceLike, () => Isolate>();

/** What this isolate knows of a namespace: the same for all stores on it. */
export function isolateOf(kv: KVNamespaceLike): () => Isolate {
  let known = isolates.get(kv);
  if (!known) {
    let isolate: Isolate | undefined;
    known = () => (isolate ??= new Isolate());
    isolates.set(kv, known);
  }
  return known;
}

/** What a value says. One that no store has written says nothing. */
export function readValue(text: string | null, algorithm: AlgorithmName): Value {
  const accounts = new Map<string, Account>();
  const { isolates = {}, resetAt, until } = parse(text);
  for (const [id, account] of Object.entries(isolates ?? {})) {
    const [version, ...state] = Array.isArray(account) ? (account as unknown[]) : [];
    if (!isCount(version) || !state.every(isCount)) continue;
    if (state.length === 0 || isState(state, algorithm)) {
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

function usageOf(state: readonly number[], terms: Terms): number {
  const algorithm = algorithms[terms.algorithm];
  return usage(algorithm, algorithm.list ? [[...state]] : [...state], 0, terms, hour());
}
