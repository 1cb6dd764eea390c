/**
 * Counters in Workers KV: cheap to read everywhere, and approximate by nature. Isolates do not see each other's
 * writes for up to a minute, and of two that write at once one is lost. Within one isolate the count is exact.
 *
 * KV takes one write a second for each key, so that an isolate reads and writes a key once a second at most and
 * counts by itself in between.
 */
import { algorithms } from "../../algorithms/algorithms.ts";
import { decide } from "../../algorithms/decide.ts";
import { usage } from "../../algorithms/step.ts";
import type { Charge, Group } from "../../core/charge.ts";
import { elapsed, hour } from "../../core/clock.ts";
import type { Decision, Inspection } from "../../core/decision.ts";
import { refuseDisposed, SluiceError } from "../../core/errors.ts";
import { checkOptions } from "../../core/options.ts";
import type { AlgorithmName } from "../../core/policy.ts";
import type { Store } from "../../core/store.ts";
import type { Terms } from "../../core/terms.ts";
import { type Changes, settle } from "../settle.ts";
import { checkKeyOptions, KEY_OPTIONS, type KeyOptions, storedKey, tagOf } from "../stored-key.ts";
import { mergeStates } from "./merge-states.ts";
import { has, type KVNamespaceLike, type WaitUntil } from "./platform.ts";
import { isState } from "./state-text.ts";

/** What a store in KV can be told. */
export interface KVStoreOptions extends KeyOptions {
  /**
   * Lets writes end after the response was sent: `waitUntil` of `cloudflare:workers`, or `(p) => ctx.waitUntil(p)`.
   * Without it a request waits for its write, and what was granted within a second of a write is written by a later
   * request, or never.
   */
  waitUntil?: WaitUntil;
}

/** A store in Workers KV. */
export interface KVStore extends Store {
  readonly consistency: "approximate";
}

/** The names of all these options. */
export const KV_OPTIONS: readonly string[] = ["waitUntil", ...KEY_OPTIONS];

/** The platform's limit for each key, and how often it is read. */
const EVERY_MS = 1000;
/** How long a read may still show what was there before a write. */
const STALE_MS = 60_000;
/** KV keeps nothing for less. */
const SHORTEST_TTL_S = 60;
/** So many keys are known at once; what is given up is read again. */
const MOST_KNOWN = 10_000;

/** Keeps counters in a namespace of Workers KV: windows, not buckets. */
export function kvStore(kv: KVNamespaceLike, options: KVStoreOptions = {}): KVStore {
  if (!has(kv, ["get", "put", "delete"])) {
    const expected = "a KV namespace, such as env.KV with a binding of that name in wrangler.jsonc";
    throw new SluiceError("invalid-option", "kv", expected, kv);
  }
  checkOptions("kvStore", options, KV_OPTIONS);
  const { waitUntil } = options;
  if (waitUntil !== undefined && typeof waitUntil !== "function") {
    throw new SluiceError("invalid-option", "waitUntil", "a function of a promise", waitUntil);
  }
  checkKeyOptions(options);
  return new KV(kv, options);
}

/** What an isolate knows of one bucket. Times are elapsed milliseconds. */
interface Known {
  /** What KV holds, as far as is known. */
  saved: readonly number[];
  /** What was granted here and is not written yet. */
  unsaved: readonly number[];
  readAt: number;
  writtenAt: number;
  /** Whether something has to be written. */
  dirty: boolean;
  /** Until when a write is expected that was put off. */
  expectedBy: number;
}

/** All stores on one namespace count together. */
const known = new WeakMap<KVNamespaceLike, Map<string, Known>>();

class KV implements KVStore {
  readonly consistency = "approximate";
  // A key that was not read here for a while comes from far away.
  readonly deadlineMs = 1000;
  private readonly kv: KVNamespaceLike;
  private readonly options: KVStoreOptions;
  private readonly known: Map<string, Known>;
  private disposed = false;

  constructor(kv: KVNamespaceLike, options: KVStoreOptions) {
    this.kv = kv;
    this.options = options;
    this.known = known.get(kv) ?? new Map();
    known.set(kv, this.known);
  }

  check({ algorithm }: Terms): void {
    if (algorithm !== "token-bucket" && algorithm !== "leaky-bucket") return;
    const expected = "fixed-window, sliding-window or sliding-log on KV: a bucket changes with every millisecond";
    throw new SluiceError("unsupported", "algorithm", expected, algorithm);
  }

  async take(groups: readonly Group[]): Promise<Decision[][]> {
    const decided: Decision[][] = [];
    for (const group of groups) decided.push(await this.takeGroup(group));
    return decided;
  }

  async reset(terms: Terms, key: string): Promise<void> {
    const bucket = this.bucketOf(terms, key);
    // A write that was put off must not bring it back.
    Object.assign(this.entryOf(bucket), { dirty: false });
    this.known.delete(bucket);
    await this.kv.delete(bucket);
  }

  async inspect(terms: Terms, key: string): Promise<Inspection> {
    const bucket = this.bucketOf(terms, key);
    const raw = await this.kv.get(bucket);
    const [[decision] = []] = await this.take([[{ terms, key, cost: 0, mode: "peek" }]]);
    const { policy, limit, remaining, resetAfterMs } = decision as Decision;
    const until = parse(raw)?.until;
    return {
      policy,
      key,
      storedKey: bucket,
      found: raw !== null,
      limit,
      remaining,
      resetAfterMs,
      ttlMs: typeof until === "number" ? Math.max(0, until - hour()) : null,
      raw,
    };
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  private bucketOf(terms: Terms, key: string): string {
    if (this.disposed) refuseDisposed("kvStore");
    return storedKey(tagOf(key, this.options), terms.bucket);
  }

  private async takeGroup(charges: Group): Promise<Decision[]> {
    const group = charges.map((charge): Charge => ({ ...charge, key: this.bucketOf(charge.terms, charge.key) }));
    const entries = await Promise.all(group.map((charge) => this.learn(charge)));
    // From here to the writing nothing is waited for: requests of one isolate count one after the other.
    const now = hour();
    const changes: Changes = new Map();
    const merged = new Map(
      group.map(({ key, terms }, i) => {
        const { saved, unsaved } = entries[i] as Known;
        return [key, mergeStates(saved, unsaved, terms)];
      }),
    );
    const read = (bucket: string, algorithm: AlgorithmName) => {
      const state = merged.get(bucket) ?? [];
      return isState(state, algorithm) && state.length > 0 ? state : undefined;
    };
    const decisions = settle(group, { read }, now, changes);
    const writes = group.map((charge, i) => {
      const entry = entries[i] as Known;
      const change = changes.get(charge.key);
      if (change) note(entry, charge, (decisions[i] as Decision).allowed, change.state, now);
      return entry.dirty ? this.write(charge, entry) : undefined;
    });
    await Promise.all(writes);
    return decisions.map((decision): Decision => ({ ...decision, approximate: true }));
  }

  /** What is known of a bucket, read anew if that was a while ago. Each request reads for itself: I/O is its own. */
  private async learn({ key: bucket, terms }: Charge): Promise<Known> {
    const entry = this.entryOf(bucket);
    if (elapsed() - entry.readAt < EVERY_MS) return entry;
    const { state } = parse(await this.kv.get(bucket)) ?? {};
    const read = Array.isArray(state) && isState(state, terms.algorithm) ? (state as number[]) : [];
    entry.readAt = elapsed();
    // What was written here may not be seen yet; counts only grow, so that the greater one is the newer one.
    const trusted = elapsed() - entry.writtenAt > STALE_MS || usageOf(read, terms) >= usageOf(entry.saved, terms);
    if (trusted) entry.saved = read;
    return entry;
  }

  private entryOf(bucket: string): Known {
    let entry = this.known.get(bucket);
    if (!entry) {
      const never = Number.NEGATIVE_INFINITY;
      entry = { saved: [], unsaved: [], readAt: never, writtenAt: never, dirty: false, expectedBy: never };
      this.known.set(bucket, entry);
      if (this.known.size > MOST_KNOWN) this.known.delete(this.known.keys().next().value as string);
    }
    return entry;
  }

  /** Writes now, or when a second has passed since the last time. */
  private write({ key: bucket, terms }: Charge, entry: Known): Promise<void> | undefined {
    const { waitUntil } = this.options;
    const due = entry.writtenAt + EVERY_MS - elapsed();
    if (due <= 0) {
      const written = this.put(bucket, terms, entry);
      if (!waitUntil) return written;
      waitUntil(written.catch(() => {}));
    } else if (waitUntil && entry.expectedBy < elapsed()) {
      // A request that was put an end to takes its timers with it: then another one may try.
      entry.expectedBy = elapsed() + 2 * EVERY_MS;
      const later = new Promise((resolve) => setTimeout(resolve, due));
      waitUntil(later.then(() => (entry.dirty ? this.put(bucket, terms, entry) : undefined)).catch(() => {}));
    }
    return undefined;
  }

  private async put(bucket: string, terms: Terms, entry: Known): Promise<void> {
    const now = hour();
    const state = mergeStates(entry.saved, entry.unsaved, terms);
    const { ttlMs } = decide(state, { terms, key: bucket, cost: 0, mode: "peek" }, now);
    const expirationTtl = Math.max(SHORTEST_TTL_S, Math.ceil(ttlMs / 1000));
    Object.assign(entry, { saved: state, unsaved: [], dirty: false, writtenAt: elapsed(), expectedBy: elapsed() });
    try {
      await this.kv.put(bucket, JSON.stringify({ state, until: now + expirationTtl * 1000 }), { expirationTtl });
    } catch (error) {
      // It counts here all the same, and is written with what comes next.
      entry.dirty = true;
      // Another isolate has written in the same second: that is no fault.
      if (!/429|too many/i.test(String(error))) throw error;
    }
  }
}

/** Notes what became of a bucket. A grant is kept apart until it is written, to be added to what is read meanwhile. */
function note(entry: Known, charge: Charge, allowed: boolean, state: readonly number[], now: number): void {
  if (charge.mode === "take" && allowed) {
    entry.unsaved = decide(entry.unsaved.length > 0 ? entry.unsaved : undefined, charge, now).state;
  } else {
    entry.saved = state;
    entry.unsaved = [];
  }
  entry.dirty = true;
}

function usageOf(state: readonly number[], terms: Terms): number {
  const algorithm = algorithms[terms.algorithm];
  if (state.length === 0) return 0;
  return usage(algorithm, algorithm.list ? [[...state]] : [...state], 0, terms, hour());
}

/** What a value says, if a store has written it. */
function parse(value: string | null): { state?: unknown; until?: unknown } | undefined {
  try {
    const parsed: unknown = JSON.parse(value ?? "null");
    return typeof parsed === "object" && parsed !== null ? parsed : undefined;
  } catch {
    return undefined;
  }
}
