/**
 * Circuit breaker: after consecutive failures, calls are rejected for a while; then one probe is let through. There is
 * one circuit for the whole store, and one per shard where shards fail independently.
 */
import { BoundedMap } from "../base/bounded-map.ts";
import type { SluiceError } from "../base/errors.ts";
import { ReportThrottle } from "../base/report-throttle.ts";

/** Consecutive failures that open a circuit. */
const MAX_CONSECUTIVE_FAILURES = 5;
/** Time in ms from opening to the next probe. */
const OPEN_MS = 1000;
/** Failing shards that are tracked at once. */
const MAX_SHARDS_TRACKED = 1000;
/** Failures of any shards, without a success in between, that open the circuit of the whole store. */
const MAX_FAILURES_OF_ALL_SHARDS = 25;
/** The same error within this many ms is one failure: one call carries the charges of many callers. */
const SAME_FAILURE_MS = 5;
/** A shard without calls for this long is dropped. */
const IDLE_MS = 60_000;

/** Is called when the store goes down, when it is up again, and when calls fail now and then. */
export interface Watcher {
  down(error: SluiceError): void;
  up(downMs: number): void;
  /** Calls failed, but too few in a row to open a circuit: `count` calls since the last report, at most one a minute. */
  degraded(error: SluiceError, count: number): void;
}

/** A shard, as the store's `shardOf` returns it, or `ALL_SHARDS`. */
export type Shard = number | string;

/** The whole store. */
export const ALL_SHARDS = -1;

/** A shard that has failed lately. Times are monotonic milliseconds. */
interface ShardHealth {
  /** What opens the circuit: calls that fail together count once. */
  failures: number;
  failedCalls: number;
  lastError: SluiceError;
  lastFailedAt: number;
  isOpen: boolean;
  probeAt: number;
}

/** The circuits of one store. Times are monotonic milliseconds, given by the caller. */
export class Breaker {
  /** Called when the first circuit opens, and when the last one closes. */
  readonly watchers: Set<Watcher> = new Set();
  /** Called like watchers. */
  readonly observers: Set<Watcher> = new Set();
  private readonly failing: BoundedMap<Shard, ShardHealth> = new BoundedMap({
    maxEntries: MAX_SHARDS_TRACKED,
    onEvict: (_, health) => this.closed(health, health.lastFailedAt),
  });
  /** How often calls have failed without opening a circuit, until the next reply. */
  interruptions = 0;
  private readonly degradations: ReportThrottle = new ReportThrottle();
  private openCircuits = 0;
  private openSince = 0;
  private consecutiveFailures = 0;

  /** Whether calls to a shard are rejected, but for probes. */
  isOpen(shard: Shard): boolean {
    return this.failing.size > 0 && (this.openCircuit(shard) ?? this.openCircuit(ALL_SHARDS)) !== undefined;
  }

  /** The error to reject a call with, or `undefined` if the call may be sent. Lets one probe through per interval. */
  rejection(shard: Shard, now: number): SluiceError | undefined {
    if (this.failing.size === 0) return undefined;
    const circuits = [this.openCircuit(ALL_SHARDS), this.openCircuit(shard)].filter((circuit) => circuit !== undefined);
    const blocking = circuits.find(({ probeAt }) => now < probeAt);
    if (blocking) return blocking.lastError;
    // The next probe may follow after the same interval, however long this one takes.
    for (const circuit of circuits) circuit.probeAt = now + OPEN_MS;
    return undefined;
  }

  /** Milliseconds until the next probe of a shard, at least 1. */
  retryAfterMs(shard: Shard, now: number): number {
    const probeAt = Math.max(this.openCircuit(shard)?.probeAt ?? 0, this.openCircuit(ALL_SHARDS)?.probeAt ?? 0);
    return Math.max(1, Math.ceil(probeAt - now));
  }

  /** Records that a shard has replied. */
  succeeded(shard: Shard, now: number): void {
    this.consecutiveFailures = 0;
    if (this.failing.size === 0) return;
    this.drop(ALL_SHARDS, now);
    this.drop(shard, now);
    this.dropIdle(now);
  }

  /** Records a failure of a call, which may have been a probe. */
  failed(shard: Shard, now: number, error: SluiceError, isProbe: boolean): void {
    // Repeated failures of a single shard must not open the circuit of the whole store.
    const countsForAll = !this.openCircuit(shard);
    const isNew = this.record(shard, now, error, isProbe, MAX_CONSECUTIVE_FAILURES);
    if (isNew && countsForAll) this.consecutiveFailures++;
    if (shard !== ALL_SHARDS && this.consecutiveFailures >= MAX_FAILURES_OF_ALL_SHARDS) {
      this.record(ALL_SHARDS, now, error, isProbe, 1);
    }
    this.dropIdle(now);
  }

  /** Records a failure and opens the circuit at `maxFailures`. Returns whether it is a new failure. */
  private record(shard: Shard, now: number, error: SluiceError, isProbe: boolean, maxFailures: number): boolean {
    let health = this.failing.get(shard);
    const isNew =
      !health || now - health.lastFailedAt >= SAME_FAILURE_MS || causeOf(error) !== causeOf(health.lastError);
    if (!health) {
      health = { failures: 0, failedCalls: 0, lastError: error, lastFailedAt: now, isOpen: false, probeAt: 0 };
      this.failing.set(shard, health);
    }
    if (isNew) health.failures++;
    health.failedCalls++;
    health.lastError = error;
    health.lastFailedAt = now;
    if (health.isOpen) {
      // A call that was sent before the circuit opened is no news.
      if (isProbe) health.probeAt = now + OPEN_MS;
    } else if (health.failures >= maxFailures) {
      health.isOpen = true;
      health.probeAt = now + OPEN_MS;
      if (++this.openCircuits === 1) {
        this.openSince = now;
        for (const watcher of [...this.watchers, ...this.observers]) watcher.down(error);
      }
    }
    return isNew;
  }

  private openCircuit(shard: Shard): ShardHealth | undefined {
    const health = this.failing.get(shard);
    return health?.isOpen ? health : undefined;
  }

  private dropIdle(now: number): void {
    for (const [shard, { lastFailedAt }] of this.failing) {
      // Roughly oldest first.
      if (now - lastFailedAt < IDLE_MS) return;
      this.drop(shard, now);
    }
  }

  private drop(shard: Shard, now: number): void {
    const health = this.failing.get(shard);
    this.failing.delete(shard);
    if (health) this.closed(health, now);
  }

  private closed({ isOpen, failedCalls, lastError }: ShardHealth, now: number): void {
    if (!isOpen) {
      this.interruptions++;
      const count = this.degradations.add(now, failedCalls);
      if (count === 0) return;
      for (const watcher of [...this.watchers, ...this.observers]) watcher.degraded(lastError, count);
      return;
    }
    if (--this.openCircuits > 0) return;
    const downMs = Math.round(now - this.openSince);
    for (const watcher of [...this.watchers, ...this.observers]) watcher.up(downMs);
  }
}

/** The client's error. Calls that carry many charges fail all of them with the same one. */
function causeOf(error: SluiceError): unknown {
  return error.cause ?? error;
}
