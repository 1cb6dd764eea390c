/** The cached counts of one KV key in this isolate: its own grants, and those that other isolates have written. */

import { copyKey } from "../../../base/copy-key.ts";
import type { CompiledPolicy } from "../../../core/compiled-policy.ts";
import type { Decision } from "../../../core/decision.ts";
import { usage } from "../../../core/step.ts";
import type { IsolateCount, KVValue } from "./kv-value.ts";
import { clampToNow, mergeStates } from "./merge-states.ts";

/** The cost of a count besides its state, in numbers. */
const COUNT_OVERHEAD = 32;
/** Expired counts are kept up to this many: their versions identify stale reads. */
const MAX_EXPIRED_COUNTS = 64;
/** KV shows a write everywhere after this time, unless another write has replaced it. */
const PROPAGATION_MS = 60_000;

/** One bucket. Times are monotonic milliseconds unless noted. */
export class Entry {
  /** The stored key. */
  readonly bucket: string;
  /** Index in the isolate's list of entries; -1 after eviction. */
  index = -1;
  /** Number of requests that use it. */
  requests = 0;
  /** When the last of these requests began. */
  requestedAt: number = Number.NEGATIVE_INFINITY;
  /** Fraction of the limit in use at the last decision. */
  private used = 0;
  /** When nothing will be in use any more. */
  private freeAt: number = Number.NEGATIVE_INFINITY;
  /** Id of its own count in the value. An evicted entry that is created again gets another id. */
  readonly id: string = crypto.randomUUID().slice(0, 13);
  /** The grants of this isolate. A value that another isolate wrote never replaces it. */
  own: IsolateCount = { version: 0, state: undefined };
  readAt: number = Number.NEGATIVE_INFINITY;
  writtenAt: number = Number.NEGATIVE_INFINITY;
  /** Whether it has changes to write. */
  dirty = false;
  /** Until when a delayed write is expected to run. */
  writeExpectedBy: number = Number.NEGATIVE_INFINITY;
  /** Time of the last reset in milliseconds since the epoch; 0 once it has no effect any more. */
  resetAt = 0;
  /** Its size when the isolate last counted it. */
  weight = 0;
  /** The grants of other isolates, by their ids. */
  private readonly others: Map<string, IsolateCount> = new Map();

  constructor(bucket: string) {
    this.bucket = copyKey(bucket);
  }

  /** Upper bound of the fraction in use. */
  usageAt(monotonic: number): number {
    return monotonic < this.freeAt ? this.used : 0;
  }

  /** Records how much a decision reports to be in use. */
  recordDecision({ limit, remaining, resetAfterMs }: Decision, monotonic: number): void {
    this.used = 1 - remaining / limit;
    this.freeAt = monotonic + resetAfterMs;
  }

  /** Its memory, in numbers. */
  get size(): number {
    let size = COUNT_OVERHEAD + (this.own.state?.length ?? 0);
    for (const { state } of this.others.values()) size += COUNT_OVERHEAD + (state?.length ?? 0);
    return size;
  }

  /** Returns the sum of all counts, or `undefined` if nothing is counted. */
  total(policy: CompiledPolicy): readonly number[] | undefined {
    let total: readonly number[] = [];
    for (const { state } of [this.own, ...this.others.values()]) {
      if (state) total = mergeStates(total, state, policy);
    }
    return total.length > 0 ? total : undefined;
  }

  /** Moves counts that are dated in the future to `now` and keeps them there. */
  clampToNow(policy: CompiledPolicy, now: number): void {
    for (const [id, { version, state }] of this.counts()) {
      const clamped = state && clampToNow(state, policy, now);
      if (!clamped || clamped === state) continue;
      if (id === this.id) this.setOwn(clamped);
      else this.others.set(id, { version, state: clamped });
    }
  }

  /** The counts of all isolates, by their ids. */
  counts(): [string, IsolateCount][] {
    return [...this.others, [this.id, this.own]];
  }

  /** Replaces its own state after a grant or refund. */
  setOwn(state: readonly number[]): void {
    this.own = { version: this.own.version + 1, state: state.length === 0 ? undefined : state };
    this.dirty = true;
  }

  /** Takes newer counts from a value, and marks the entry for writing if the value has lost its own count. */
  merge(value: KVValue, policy: CompiledPolicy, now: number, monotonic: number): void {
    // A reset has an effect for as long as a count from before it could still matter.
    const ifRecent = (time: number) => (time + 2 * policy.windowMs < now ? 0 : time);
    this.resetAt = ifRecent(this.resetAt);
    const resetAt = ifRecent(value.resetAt);
    const { version = 0 } = value.counts.get(this.id) ?? {};
    const isOverwritten = version < this.own.version && this.own.state !== undefined;
    if (monotonic - this.writtenAt > PROPAGATION_MS && (isOverwritten || resetAt < this.resetAt)) this.dirty = true;
    if (resetAt < this.resetAt) return;
    if (resetAt > this.resetAt) this.clear(resetAt);
    for (const [id, count] of value.counts) {
      if (id !== this.id && count.version > (this.others.get(id)?.version ?? 0)) this.others.set(id, count);
    }
    if (this.others.size <= MAX_EXPIRED_COUNTS) return;
    for (const [id, { state }] of this.others) {
      if (!state || usageOf(state, policy, now) === 0) this.others.delete(id);
    }
  }

  /** Drops all counts from before a reset. */
  clear(resetAt: number): void {
    this.resetAt = resetAt;
    this.others.clear();
    this.own = { version: this.own.version + 1, state: undefined };
    this.dirty = false;
  }

  /** Records that its changes are being written. */
  markWritten(monotonic: number): void {
    this.dirty = false;
    this.writtenAt = monotonic;
    this.writeExpectedBy = Number.NEGATIVE_INFINITY;
  }
}

function usageOf(state: readonly number[], policy: CompiledPolicy, now: number): number {
  const { algorithm } = policy;
  return usage({ algorithm, cells: algorithm.list ? [[...state]] : [...state], at: 0, policy }, now);
}
