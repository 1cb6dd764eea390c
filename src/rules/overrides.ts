/** Overrides from a function of the application: cached, refreshed in the background, and bounded in time. */
import { BoundedMap } from "../base/bounded-map.ts";
import { monotonicMs } from "../base/clock.ts";
import { SluiceError, show } from "../base/errors.ts";
import { isPromise, type MaybePromise } from "../base/maybe-promise.ts";
import { emitProcessWarning } from "../base/warnings.ts";
import { type EventTarget, emit } from "../core/events.ts";
import type { LimitSpec } from "./parsed-rules.ts";
import type { LimitText } from "./rules-data.ts";

/** Returns the override of a limit for a key; `undefined` if there is none. */
export type FindOverride = (limit: string, key: string) => MaybePromise<LimitText | undefined>;

/** Validates the text of an override. Throws a `SluiceError`. */
export type ParseOverride = (limit: string, key: string, text: unknown) => LimitSpec;

const MAX_ENTRIES = 10_000;
const MAX_KEY_LENGTH = 1024;
/** How long a value is used before it is read again, in ms. */
const FRESH_MS = 60_000;
/** How long to wait before a failed call is repeated, in ms. */
const RETRY_MS = 1000;
/** How long requests wait for the first value, in ms. Later values are read in the background. */
const DEADLINE_MS = 1000;
/** After this time, a call that has not ended is made again, in ms. */
const MAX_CALL_MS = 10_000;

/** What is known about the override of one limit for one key. Times are monotonic milliseconds. */
interface Entry {
  /** The last value; `undefined`: there is no override, or it is not known. */
  spec: LimitSpec | undefined;
  refreshAt: number;
  /** The call in flight. Never rejects. */
  call: Promise<void> | undefined;
  /** When it is given up, so that one that never ends does not keep a value for ever. */
  giveUpAt: number;
}

/** The overrides of one rule set. */
export class Overrides {
  private readonly find: FindOverride;
  private readonly parse: ParseOverride;
  private readonly target: EventTarget;
  private readonly entries: BoundedMap<string, Entry> = new BoundedMap({
    maxEntries: MAX_ENTRIES,
    maxKeyLength: MAX_KEY_LENGTH,
    order: "lru",
  });
  private hasWarned = false;

  constructor(find: FindOverride, parse: ParseOverride, target: EventTarget) {
    this.find = find;
    this.parse = parse;
    this.target = target;
  }

  /**
   * The override of a limit for a key. Only the first call for a key returns a promise: after 60 s the last value is used
   * while it is read again. If the function fails, the last value is used; without one, the rule's own limit applies.
   */
  of(limit: string, key: string): MaybePromise<LimitSpec | undefined> {
    const id = `${limit}\n${key}`;
    const now = monotonicMs();
    let entry = this.entries.get(id);
    if (entry) {
      const isIdle = !entry.call || now >= entry.giveUpAt;
      if (now >= entry.refreshAt && isIdle) this.read(entry, limit, key);
      return entry.spec ?? (entry.call && entry.refreshAt === 0 ? this.first(entry, limit) : undefined);
    }
    entry = { spec: undefined, refreshAt: 0, call: undefined, giveUpAt: 0 };
    this.entries.set(id, entry);
    this.read(entry, limit, key);
    return entry.call ? this.first(entry, limit) : entry.spec;
  }

  /** Reports a value that does not fit its limit. The rule's own limit applies instead. */
  reject(limit: string, key: string, reason: string): void {
    const message = `overrides("${limit}", ${show(key)}) returned a limit that is not used: it ${reason}.`;
    this.failed(limit, new SluiceError("invalid-rules", message, { option: "overrides" }));
  }

  /** Waits for the first value of an entry, for a bounded time. */
  private first(entry: Entry, limit: string): Promise<LimitSpec | undefined> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.failed(limit, new Error(`overrides() took longer than ${DEADLINE_MS} ms`));
        // Later requests don't wait for the same call.
        entry.refreshAt = monotonicMs() + RETRY_MS;
        resolve(undefined);
      }, DEADLINE_MS);
      void entry.call?.then(() => {
        clearTimeout(timer);
        resolve(entry.spec);
      });
    });
  }

  /** Reads the value of an entry. At most one call per entry is in flight that was not given up. */
  private read(entry: Entry, limit: string, key: string): void {
    const done = (text: LimitText | undefined): void => {
      entry.spec = text === undefined ? undefined : this.parse(limit, key, text);
      entry.refreshAt = monotonicMs() + FRESH_MS;
    };
    const failed = (error: unknown): void => {
      entry.refreshAt = monotonicMs() + RETRY_MS;
      this.failed(limit, error);
    };
    try {
      const found = this.find(limit, key);
      if (!isPromise(found)) {
        done(found);
        return;
      }
      // A call that was given up changes nothing any more.
      const ifCurrent =
        <T>(then: (value: T) => void) =>
        (value: T) => {
          if (entry.call === call) then(value);
        };
      const call: Promise<void> = Promise.resolve(found)
        .then(ifCurrent(done))
        .catch(ifCurrent(failed))
        .finally(ifCurrent(() => (entry.call = undefined)) as () => void);
      entry.call = call;
      entry.giveUpAt = monotonicMs() + MAX_CALL_MS;
    } catch (error) {
      failed(error);
    }
  }

  private failed(limit: string, cause: unknown): void {
    const message = "overrides() failed, so the last known override or the rule's own limit applies.";
    const error =
      cause instanceof SluiceError ? cause : new SluiceError("invalid-option", message, { option: "overrides", cause });
    emit(this.target, { type: "override-failed", policy: limit, error });
    if (!this.target.onEvent && !this.hasWarned) {
      this.hasWarned = true;
      emitProcessWarning("SLUICE_CALLBACK_FAILED", `${message} Set onEvent to receive every such error.`);
    }
  }
}
