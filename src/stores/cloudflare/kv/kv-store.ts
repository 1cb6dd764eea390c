/**
 * A store in Workers KV: cheap to read everywhere, and approximate. KV has no atomic read-modify-write, and shows a write
 * in other locations up to a minute later.
 *
 * So every isolate counts on its own. The value of a bucket has one count per isolate that granted something, each with
 * a version that increases with every change: of two counts of one isolate the one with the higher version is newer,
 * even after a stale read or a lost write. An isolate writes its own count and copies the others.
 *
 * KV accepts one write per second and key, so an isolate reads and writes a key about once per second.
 */

import { monotonicMs, wallClockMs } from "../../../base/clock.ts";
import { optionError, rejectDisposed, SluiceError } from "../../../base/errors.ts";
import { checkOptions } from "../../../base/options.ts";
import type { Charge, Group } from "../../../core/charge.ts";
import type { CompiledPolicy, Mode } from "../../../core/compiled-policy.ts";
import { decide, decideGroup } from "../../../core/decide.ts";
import type { Decision, Inspection } from "../../../core/decision.ts";
import { copyGrant } from "../../../core/grant.ts";
import type { PlainState } from "../../../core/state.ts";
import type { CallState, Store } from "../../../core/store.ts";
import { checkKeyOptions, KEY_OPTIONS, type KeyOptions, keyTag, storedKey } from "../../stored-key.ts";
import { hasMethods, type KVNamespaceLike, type WaitUntil } from "../platform.ts";
import { type Isolate, isolateOf } from "./isolate.ts";
import type { Entry } from "./kv-entry.ts";
import { formatValue, parseValue } from "./kv-value.ts";

/** Options of `kvStore`. */
export interface KVStoreOptions extends KeyOptions {
  /**
   * Lets writes finish after the response: `waitUntil` of `cloudflare:workers`. Without it, a request waits for its
   * write, and grants within a second of the last write are written by a later request, or never.
   */
  waitUntil?: WaitUntil;
}

/** A store in Workers KV. */
export interface KVStore extends Store {
  /** Decisions are approximate. */
  readonly consistency: "approximate";
}

/** The names of `KVStoreOptions`. */
export const KV_OPTIONS: readonly string[] = ["waitUntil", ...KEY_OPTIONS];

/** Minimum time between two writes of one key, and between two reads. KV rejects faster writes with 429. */
const SYNC_INTERVAL_MS = 1000;
/** Minimum `expirationTtl` that KV accepts, in seconds. */
const MIN_TTL_S = 60;

/** Creates a store in a Workers KV namespace. Token and leaky buckets are not supported. */
export function kvStore(kv: KVNamespaceLike, options: KVStoreOptions = {}): KVStore {
  if (!hasMethods(kv, ["get", "put", "delete"])) {
    const expected = "a KV namespace, such as env.KV with a binding of that name in wrangler.jsonc";
    throw optionError("invalid-option", "kv", expected, kv);
  }
  checkOptions("kvStore", options, KV_OPTIONS);
  const { waitUntil } = options;
  if (waitUntil !== undefined && typeof waitUntil !== "function") {
    throw optionError("invalid-option", "waitUntil", "a function that takes a promise", waitUntil);
  }
  checkKeyOptions(options);
  return new KV(kv, options);
}

class KV implements KVStore {
  readonly consistency = "approximate";
  readonly kind = "kv";
  // Longer than for other stores: KV fetches a key that is not cached in this location from far away.
  readonly deadlineMs = 1000;
  readonly origin: object | undefined;
  private readonly kv: KVNamespaceLike;
  private readonly options: KVStoreOptions;
  /** Shared by all stores on the namespace. */
  private readonly isolate: Isolate;
  private disposed = false;

  constructor(kv: KVNamespaceLike, options: KVStoreOptions) {
    this.kv = kv;
    this.options = options;
    this.isolate = isolateOf(kv);
    // Stores with the same stored keys share a circuit breaker and cached denials.
    this.origin = options.secretKeys || options.hmacSecret ? undefined : this.isolate;
  }

  get warning(): string | undefined {
    return this.isolate.warning;
  }

  check({ algorithm }: CompiledPolicy, _isGroup: boolean, mode?: Mode): void {
    if (mode === "hold") {
      const message =
        "kvStore does not support holds, because KV is eventually consistent. Use Durable Objects or Redis.";
      throw new SluiceError("unsupported", message, { option: "hold", expected: "an exact store" });
    }
    if (algorithm.mergesAs) return;
    const expected = "fixed-window, sliding-window or sliding-log on KV";
    throw optionError("unsupported", "algorithm", expected, algorithm.name);
  }

  async apply(groups: readonly Group[], callState?: CallState): Promise<Decision[][]> {
    const decisions: Decision[][] = [];
    for (const group of groups) {
      const reset = group.find(({ mode }) => mode === "reset");
      if (reset && group.length > 1) {
        throw new SluiceError("unsupported", "kvStore does not support a reset together with other charges.", {
          option: "mode",
        });
      }
      if (reset) await this.reset(reset);
      decisions.push(await this.applyGroup(group, callState));
    }
    return decisions;
  }

  /** Writes the time of the reset: if the key were deleted, other isolates would write their counts again. */
  private async reset({ policy, key }: Charge): Promise<void> {
    const bucket = this.bucketOf(policy, key);
    await this.isolate.use([bucket], async ([found]) => {
      const entry = found as Entry;
      entry.merge(parseValue(await this.kv.get(bucket), policy.algorithm), policy, wallClockMs(), monotonicMs());
      entry.clear(Math.max(wallClockMs(), entry.resetAt + 1));
      await this.put(bucket, policy, entry);
      // The decision that follows needs no further read, which could fail although the reset is stored.
      entry.readAt = monotonicMs();
    });
  }

  async inspect(policy: CompiledPolicy, key: string): Promise<Inspection> {
    const bucket = this.bucketOf(policy, key);
    const raw = await this.kv.get(bucket);
    const [decision] = (await this.applyGroup([{ policy, key, cost: 0, mode: "peek" }])) as [Decision];
    const { limit, remaining, resetAfterMs } = decision;
    const { counts, keptUntil } = parseValue(raw, policy.algorithm);
    const found = [...counts.values()].some(({ state }) => state !== undefined);
    const ttlMs = found ? Math.max(0, keptUntil - wallClockMs()) : null;
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

  private async applyGroup(charges: Group, callState?: CallState): Promise<Decision[]> {
    const group = charges.map((charge): Charge => ({ ...charge, key: this.bucketOf(charge.policy, charge.key) }));
    const buckets = group.map(({ key }) => key);
    return this.isolate.use(buckets, (entries) => this.decideAndWrite(entries, group, callState));
  }

  private async decideAndWrite(entries: readonly Entry[], group: Group, callState?: CallState): Promise<Decision[]> {
    await Promise.all(group.map((charge, i) => this.refresh(charge, entries[i] as Entry)));
    // The fallback has decided an abandoned call: don't charge it here as well.
    if (callState?.abandoned) throw new SluiceError("store-unavailable", "The deadline passed before KV was read.");
    const decisions = this.decideCharges(entries, group, wallClockMs());
    const writes = group.map((charge, i) => {
      const entry = entries[i] as Entry;
      entry.recordDecision(decisions[i] as Decision, monotonicMs());
      this.isolate.updateWeight(entry);
      return entry.dirty ? this.write(charge, entry) : undefined;
    });
    await Promise.all(writes);
    return decisions.map((decision): Decision => copyGrant(decision, { ...decision, approximate: true }));
  }

  /** Decides on the sum of all counts and changes this isolate's own ones. Synchronous, so requests can't interleave. */
  private decideCharges(entries: readonly Entry[], group: Group, now: number): Decision[] {
    // Before the first change, because it rejects modes that KV does not support.
    const reads = group.map(withoutChange);
    group.forEach((charge, i) => {
      const entry = entries[i] as Entry;
      entry.clampToNow(charge.policy, now);
      if (charge.mode === "refund") applyToOwn(charge, entry, now);
    });
    const totals = new Map(group.map(({ key, policy }, i) => [key, (entries[i] as Entry).total(policy)]));
    const decisions = decideGroup(reads, ({ key }) => totals.get(key), now).map(({ decision }) => decision);
    if (decisions.every(({ allowed }) => allowed)) {
      group.forEach((charge, i) => {
        if (charge.mode === "take") applyToOwn(charge, entries[i] as Entry, now);
      });
    }
    return decisions;
  }

  /** Reads a bucket again after the sync interval. Every request reads for itself: Workers can't share I/O. */
  private async refresh({ key: bucket, policy }: Charge, entry: Entry): Promise<void> {
    const { readAt } = entry;
    if (monotonicMs() - readAt < SYNC_INTERVAL_MS) return;
    // While one request refreshes a bucket, others use the cached counts, unless it was never read.
    if (readAt !== Number.NEGATIVE_INFINITY) entry.readAt = monotonicMs();
    try {
      entry.merge(parseValue(await this.kv.get(bucket), policy.algorithm), policy, wallClockMs(), monotonicMs());
    } catch (error) {
      entry.readAt = readAt;
      throw error;
    }
    entry.readAt = monotonicMs();
  }

  /** Writes now, or after the sync interval since the last write. */
  private write({ key: bucket, policy }: Charge, entry: Entry): Promise<void> | undefined {
    const { waitUntil } = this.options;
    const now = monotonicMs();
    const delayMs = entry.writtenAt + SYNC_INTERVAL_MS - now;
    if (delayMs <= 0) {
      const written = this.tryToPut(bucket, policy, entry);
      if (!waitUntil) return written;
      callWaitUntil(waitUntil, written);
    } else if (waitUntil && now >= entry.writeExpectedBy) {
      // A cancelled request loses its timers; another request may then schedule the write again.
      entry.writeExpectedBy = now + 2 * SYNC_INTERVAL_MS;
      const delay = new Promise((resolve) => setTimeout(resolve, delayMs));
      callWaitUntil(
        waitUntil,
        delay.then(() => (entry.dirty ? this.tryToPut(bucket, policy, entry) : undefined)),
      );
    }
    return undefined;
  }

  /** Writes a bucket. A failed write does not change decisions: the grants still count in this isolate. */
  private async tryToPut(bucket: string, policy: CompiledPolicy, entry: Entry): Promise<void> {
    try {
      await this.put(bucket, policy, entry);
      this.isolate.warning = undefined;
    } catch (error) {
      // 429: another isolate has written the key in the same second, which is expected.
      if (!/\b429\b/.test(String(error))) {
        this.isolate.warning = `Writes to KV fail, so each isolate counts on its own: ${error}`;
      }
    }
  }

  private async put(bucket: string, policy: CompiledPolicy, entry: Entry): Promise<void> {
    const now = wallClockMs();
    const { ttlMs } = decide(entry.total(policy), { policy, key: bucket, cost: 0, mode: "peek" }, now);
    // Keep the time of a reset for as long as a count from before it could still matter.
    const keptMs = entry.resetAt > 0 ? Math.max(ttlMs, 2 * policy.windowMs) : ttlMs;
    const expirationTtl = Math.max(MIN_TTL_S, Math.ceil(keptMs / 1000));
    const keptUntil = now + expirationTtl * 1000;
    const value = formatValue({ counts: entry.counts(), resetAt: entry.resetAt, keptUntil });
    entry.markWritten(monotonicMs());
    try {
      await this.kv.put(bucket, value, { expirationTtl });
    } catch (error) {
      entry.dirty = true;
      throw error;
    }
  }
}

/** Returns the charge to decide on the sum of all counts, which already includes refunds and resets. */
function withoutChange(charge: Charge): Charge {
  if (charge.mode === "take" || charge.mode === "peek") return charge;
  if (charge.mode === "refund" || charge.mode === "reset") return { ...charge, cost: 0, mode: "peek" };
  throw new SluiceError("unsupported", `kvStore does not support charges in mode ${charge.mode}.`, { option: "mode" });
}

/** Applies a charge to this isolate's own count. */
function applyToOwn(charge: Charge, entry: Entry, now: number): void {
  const { state, changed } = decide(entry.own.state, charge, now);
  // KV refuses holds, so every state is plain.
  if (changed) entry.setOwn(state as PlainState);
}

function callWaitUntil(waitUntil: WaitUntil, promise: Promise<void>): void {
  try {
    waitUntil(promise);
  } catch (cause) {
    const expected = "a function that works without its object, such as waitUntil of cloudflare:workers";
    throw Object.assign(optionError("invalid-option", "waitUntil", expected), { cause });
  }
}
