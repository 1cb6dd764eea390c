/** The most denied keys of the last 5 to 10 minutes, in bounded memory. Raw keys never leave this class. */
import { checkWhole } from "../base/options.ts";
import { type Counter, SpaceSaving } from "./space-saving.ts";

/** `count` may include an error; `atLeast` is the guaranteed part. `since` is in epoch milliseconds. */
export interface TopKey {
  /** Tag of the key, 8 hexadecimal digits. */
  readonly tag: string;
  /** The rule that denied it. */
  readonly rule: string;
  /** Most denials that it can have had in the last two generations of 5 minutes. */
  readonly count: number;
  /** Denials that it had for certain. */
  readonly atLeast: number;
  /** When the key entered the retained generations, in epoch milliseconds. */
  readonly since: number;
}

const GENERATION_MS = 300_000;
/** The first denials of a key are not extrapolated from a shorter time than this. */
const MIN_RATE_MS = 10_000;
/** Keys that are longer are kept as their tag, so that clients can't fill the memory. */
const MAX_KEY_CHARS = 128;
/** The largest number of counters. */
export const MAX_COUNTERS = 65_536;

/** A key and its counts in both generations. */
type KeptKey = Omit<TopKey, "tag"> & { readonly key: string };

/** Counts denials by rule and key. `now` is in epoch ms and may step back. */
export class TopKeys {
  private readonly capacity: number;
  private readonly tagOf: (key: string) => string;
  private current: SpaceSaving;
  private previous: SpaceSaving;
  /** When the current generation started, in monotonic time. */
  private startedAt = Number.NEGATIVE_INFINITY;
  /** The last time, and how far it is ahead of the clock that was passed in, which may have stepped back. */
  private last = Number.NEGATIVE_INFINITY;
  private aheadMs = 0;

  constructor(capacity: number, tagOf: (key: string) => string) {
    this.capacity = checkWhole("topKeys", capacity, 1, MAX_COUNTERS);
    this.tagOf = tagOf;
    this.current = new SpaceSaving(capacity);
    this.previous = new SpaceSaving(capacity);
  }

  /** Counts one denial. */
  add(rule: string, key: string, now: number): void {
    const time = this.advance(now);
    this.current.add(rule, key.length > MAX_KEY_CHARS ? this.padTag(this.tagOf(key)) : key, time);
  }

  /** Returns up to `n` of the most denied keys, ranked by `atLeast`. */
  top(n: number, now: number): readonly TopKey[] {
    return this.keptKeys(now)
      .sort((a, b) => b.atLeast - a.atLeast || b.count - a.count)
      .slice(0, n)
      .map(({ key, ...counts }) => ({ tag: this.keptTag(key), ...counts }));
  }

  /**
   * Returns, for each rule, the denials per second of the key with the highest rate. Keys are compared by rate and not by
   * count, so that a flood that has just started is not hidden by a key that was denied more often minutes ago.
   */
  ratesByRule(now: number): ReadonlyMap<string, number> {
    const rates = new Map<string, number>();
    for (const { rule, atLeast, since } of this.keptKeys(now)) {
      const perSecond = (atLeast * 1000) / Math.max(MIN_RATE_MS, now - since);
      if (perSecond > (rates.get(rule) ?? 0)) rates.set(rule, perSecond);
    }
    return rates;
  }

  /** Returns the rule of each key that is kept. A rule occurs once for each of its keys. */
  rulesOfKeys(now: number): readonly string[] {
    return this.keptKeys(now).map(({ rule }) => rule);
  }

  /** Starts a new generation every 5 minutes. Returns monotonic time, which continues from the last one after a step back. */
  private advance(now: number): number {
    if (now + this.aheadMs < this.last) this.aheadMs = this.last - now;
    const time = now + this.aheadMs;
    this.last = time;
    const age = time - this.startedAt;
    if (age < GENERATION_MS) return time;
    const isOutdated = age >= 2 * GENERATION_MS;
    this.previous = isOutdated ? new SpaceSaving(this.capacity) : this.current;
    this.current = new SpaceSaving(this.capacity);
    this.startedAt = isOutdated ? time : this.startedAt + GENERATION_MS;
    return time;
  }

  private keptKeys(now: number): KeptKey[] {
    this.advance(now);
    const { current, previous, aheadMs } = this;
    const recent = current
      .counters()
      .map((counter) => joined(counter, previous.get(counter.rule, counter.key), previous.maxUncounted, aheadMs));
    const older = previous.counters().filter(({ rule, key }) => !current.get(rule, key));
    return [...recent, ...older.map((counter) => joined(counter, undefined, current.maxUncounted, aheadMs))];
  }

  /** Longer than any kept key, so that no key that a client sends has the same text. */
  private padTag(tag: string): string {
    return tag.padEnd(MAX_KEY_CHARS + 1);
  }

  private keptTag(key: string): string {
    return key.length > MAX_KEY_CHARS ? key.trimEnd() : this.tagOf(key);
  }
}

/** Adds up two generations. A key without a counter in one of them may have occurred `maxUncounted` times there. */
function joined(counter: Counter, older: Counter | undefined, maxUncounted: number, aheadMs: number): KeptKey {
  const { rule, key, count, error, since } = counter;
  return {
    rule,
    key,
    count: count + (older?.count ?? maxUncounted),
    atLeast: count - error + (older ? older.count - older.error : 0),
    since: (older?.since ?? since) - aheadMs,
  };
}
