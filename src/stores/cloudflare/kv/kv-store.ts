/**
 * Counters in Workers KV: cheap to read everywhere, and approximate by nature. KV has no step that reads and writes at
 * once, and shows writes of others up to a minute late.
 *
 * So no isolate counts for another. The value of a bucket has a count for each isolate that granted something, with a
 * number that grows whenever it changes: of two accounts of one isolate the one with the higher number is the newer
 * one, whatever was overwritten or read too late. An isolate writes its own count and copies the others.
 *
 * KV takes one write a second for each key, so that an isolate reads and writes a key about once a second and counts by
 * itself in between.
 */
import { decide } from "../../../algorithms/decide.ts";
import { decideGroup } from "../../../algorithms/decide-group.ts";
import type { Charge, Group } from "../../../core/charge.ts";
import { monotonicMs, wallClockMs } from "../../../core/clock.ts";
import type { CompiledPolicy } from "../../../core/compile.ts";
import type { Decision, Inspection } from "../../../core/decision.ts";
import { optionError, rejectDisposed } from "../../../core/errors.ts";
import { copyGrant } from "../../../core/grant.ts";
import { checkOptions } from "../../../core/options.ts";
import type { CallState, Store } from "../../../core/store.ts";
import { checkKeyOptions, KEY_OPTIONS, type KeyOptions, storedKey, keyTag } from "../../stored-key.ts";
import { hasMethods, type KVNamespaceLike, type WaitUntil } from "../platform.ts";
import { type Entry, type Isolate, isolateOf, readValue, writeValue } from "./kv-entries.ts";

/** What a store in KV can be told. */
export interface KVStoreOptions extends KeyOptions {
  /**
   * Lets writes end after the response was sent: `waitUntil` of `cloudflare:workers`. Without it a request waits for its
   * write, and what was granted within a second of a write is written by a later request, or never.
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
/** KV keeps nothing for less. */
const MIN_TTL_S = 60;

/** Keeps counters in a namespace of Workers KV: windows, not buckets. */
export function kvStore(kv: KVNamespaceLike, options: KVStoreOptions = {}): KVStore {
  if (!hasMethods(kv, ["get", "put", "delete"])) {
    const expected = "a KV namespace, such as env.KV with a binding of that name in wrangler.jsonc";
    throw optionError("invalid-option", "kv", expected, kv);
  }
  checkOptions("kvStore", options, KV_OPTIONS);
  const { waitUntil } = options;
  if (waitUntil !== undefined && typeof waitUntil !== "function") {
    throw optionError("invalid-option", "waitUntil", "a function of a promise", waitUntil);
  }
  checkKeyOptions(options);
  return new KV(kv, options);
}

class KV implements KVStore {
  readonly consistency = "approximate";
  // A key that was not read here for a while comes from far away.
  readonly deadlineMs = 1000;
  readonly origin: object | undefined;
  private readonly kv: KVNamespaceLike;
  private readonly options: KVStoreOptions;
  /** All stores on one namespace count together. */
  private readonly isolate: Isolate;
  private disposed = false;

  constructor(kv: KVNamespaceLike, options: KVStoreOptions) {
    this.kv = kv;
    this.options = options;
    this.isolate = isolateOf(kv);
    // Those that name keys alike fail together too, and have denied the same.
    this.origin = options.secretKeys || options.hmacSecret ? undefined : this.isolate;
  }

  get warning(): string | undefined {
    return this.isolate.warning;
  }

  check({ algorithm }: CompiledPolicy): void {
    if (algorithm !== "token-bucket" && algorithm !== "leaky-bucket") return;
    const expected = "fixed-window, sliding-window or sliding-log on KV: a bucket changes with every millisecond";
    throw optionError("unsupported", "algorithm", expected, algorithm);
  }

  async apply(groups: readonly Group[], waiting?: CallState): Promise<Decision[][]> {
    const decided: Decision[][] = [];
    for (const group of groups) decided.push(await this.takeGroup(group, waiting));
    return decided;
  }

  /** Says in KV that what was counted before counts no more: isolates that have granted something would write it again. */
  async reset(policy: CompiledPolicy, key: string): Promise<void> {
    const bucket = this.bucketOf(policy, key);
    await this.isolate.use([bucket], async ([found]) => {
      const entry = found as Entry;
      entry.learn(readValue(await this.kv.get(bucket), policy.algorithm), policy, wallClockMs(), monotonicMs());
      entry.forget(Math.max(wallClockMs(), entry.resetAt + 1));
      // Whoever resets a key wants to know that it was done.
      await this.put(bucket, policy, entry);
    });
  }

  async inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    const bucket = this.bucketOf(policy, key);
    const raw = await this.kv.get(bucket);
    const [decision] = (await this.takeGroup([{ policy, key, cost: 0, mode: "peek" }])) as [Decision];
    const { limit, remaining, resetAfterMs } = decision;
    const { accounts, until } = readValue(raw, policy.algorithm);
    const found = [...accounts.values()].some(({ state }) => state !== undefined);
    const ttlMs = found ? Math.max(0, until - wallClockMs()) : null;
    return {
      policy: policy.name,
      key,
      storedKey: bucket,
      found,
      limit,
      remaining,
      resetAfterMs,
      ttlMs,
      raw: found ? raw : null,
    };
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  private bucketOf(policy: CompiledPolicy, key: string): string {
    if (this.disposed) rejectDisposed("kvStore");
    return storedKey(keyTag(key, this.options), policy.id);
  }

  private async takeGroup(charges: Group, waiting?: CallState): Promise<Decision[]> {
    const group = charges.map((charge): Charge => ({ ...charge, key: this.bucketOf(charge.policy, charge.key) }));
    const buckets = group.map(({ key }) => key);
    return this.isolate.use(buckets, (entries) => this.takeFrom(entries, group, waiting));
  }

  private async takeFrom(entries: readonly Entry[], group: Group, waiting?: CallState): Promise<Decision[]> {
    await Promise.all(group.map((charge, i) => this.learn(charge, entries[i] as Entry)));
    // Whoever waited for this was answered without it.
    if (waiting?.abandoned) throw new Error("too late");
    // From here to the writing nothing is waited for: requests of one isolate count one after the other.
    const now = wallClockMs();
    group.forEach((charge, i) => {
      const entry = entries[i] as Entry;
      entry.heal(charge.policy, now);
      if (charge.mode === "refund") apply(charge, entry, now);
    });
    const totals = new Map(group.map(({ key, policy }, i) => [key, (entries[i] as Entry).total(policy)]));
    const decisions = decideGroup(
      group.map((charge) => (charge.mode === "refund" ? { ...charge, cost: 0, mode: "peek" } : charge)),
      { read: (bucket) => totals.get(bucket) },
      now,
      new Map(),
    );
    const granted = decisions.every(({ allowed }) => allowed);
    const writes = group.map((charge, i) => {
      const entry = entries[i] as Entry;
      if (granted && charge.mode === "take") apply(charge, entry, now);
      entry.decided(decisions[i] as Decision, monotonicMs());
      this.isolate.weigh(entry);
      return entry.dirty ? this.write(charge, entry) : undefined;
    });
    await Promise.all(writes);
    return decisions.map((decision): Decision => copyGrant(decision, { ...decision, approximate: true }));
  }

  /** What is known of a bucket, read anew if that was a while ago. Each request reads for itself: I/O is its own. */
  private async learn({ key: bucket, policy }: Charge, entry: Entry): Promise<void> {
    const { readAt } = entry;
    if (monotonicMs() - readAt < EVERY_MS) return;
    // While one reads anew, others go on with what is known; of a bucket that nobody has read yet, nothing is.
    if (readAt !== Number.NEGATIVE_INFINITY) entry.readAt = monotonicMs();
    try {
      entry.learn(readValue(await this.kv.get(bucket), policy.algorithm), policy, wallClockMs(), monotonicMs());
    } catch (error) {
      entry.readAt = readAt;
      throw error;
    }
    entry.readAt = monotonicMs();
  }

  /** Writes now, or when a second has passed since the last time. */
  private write({ key: bucket, policy }: Charge, entry: Entry): Promise<void> | undefined {
    const { waitUntil } = this.options;
    const now = monotonicMs();
    const due = entry.writtenAt + EVERY_MS - now;
    if (due <= 0) {
      const written = this.tryToPut(bucket, policy, entry);
      if (!waitUntil) return written;
      afterwards(waitUntil, written);
    } else if (waitUntil && now >= entry.expectedBy) {
      // A request that was put an end to takes its timers with it: then another one may try.
      entry.expectedBy = now + 2 * EVERY_MS;
      const later = new Promise((resolve) => setTimeout(resolve, due));
      afterwards(
        waitUntil,
        later.then(() => (entry.dirty ? this.tryToPut(bucket, policy, entry) : undefined)),
      );
    }
    return undefined;
  }

  /** What was decided stands, and counts here, whether it can be written or not. */
  private async tryToPut(bucket: string, policy: CompiledPolicy, entry: Entry): Promise<void> {
    try {
      await this.put(bucket, policy, entry);
      this.isolate.warning = undefined;
    } catch (error) {
      // Another isolate has written in the same second: that is no fault.
      if (!/\b429\b/.test(String(error))) {
        this.isolate.warning = `KV takes no writes, so that each isolate counts for itself: ${error}`;
      }
    }
  }

  private async put(bucket: string, policy: CompiledPolicy, entry: Entry): Promise<void> {
    const now = wallClockMs();
    const { ttlMs } = decide(entry.total(policy), { policy, key: bucket, cost: 0, mode: "peek" }, now);
    // What was reset has to be known for as long as somebody could still count it.
    const keptMs = entry.resetAt > 0 ? Math.max(ttlMs, 2 * policy.windowMs) : ttlMs;
    const expirationTtl = Math.max(MIN_TTL_S, Math.ceil(keptMs / 1000));
    const value = writeValue(entry, now + expirationTtl * 1000);
    entry.writing(monotonicMs());
    try {
      await this.kv.put(bucket, value, { expirationTtl });
    } catch (error) {
      entry.dirty = true;
      throw error;
    }
  }
}

/** Takes from, or gives back to, what this isolate has granted itself. */
function apply(charge: Charge, entry: Entry, now: number): void {
  const { state, changed } = decide(entry.own.state, charge, now);
  if (changed) entry.change(state);
}

function afterwards(waitUntil: WaitUntil, work: Promise<void>): void {
  try {
    waitUntil(work);
  } catch (cause) {
    const expected = "a function that can be called by itself, such as waitUntil of cloudflare:workers";
    throw Object.assign(optionError("invalid-option", "waitUntil", expected), { cause });
  }
}
