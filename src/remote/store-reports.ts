/** Reports problems of a store, each once: as a process warning, or as an event if a limiter has `onEvent`. */

import { copyKey } from "../base/copy-key.ts";
import type { SluiceError } from "../base/errors.ts";
import { shared } from "../base/shared-state.ts";
import { describeError, emitProcessWarning } from "../base/warnings.ts";
import type { Part } from "../core/apply.ts";
import { type EventTarget, emit, type OnEvent } from "../core/events.ts";
import { originOf, type Store, type StoreFailure } from "../core/store.ts";
import type { Watcher } from "./breaker.ts";
import { healthOf, type StoreHealth } from "./store-health.ts";

/** Corrupt keys that are reported, each once. They stay corrupt until they are reset. */
const MAX_CORRUPT_KEYS = 1000;

/** Calls that failed at several times. Once may be a slow start. */
const MIN_INTERRUPTIONS = 2;

/** What receives a store's own warning: callbacks of the application, or observers. */
type WarningReceiver = "onEvent" | "observer";

/** One per backing service. */
export class StoreReports {
  private readonly health: StoreHealth;
  private readonly lastWarnings: { [receiver in WarningReceiver]?: string | undefined } = {};
  private hasWarnedUnavailable = false;
  private hasWarnedDegraded = false;
  private hasWarnedForeign = false;
  private readonly corruptKeys: Set<string> = new Set();

  constructor(health: StoreHealth) {
    this.health = health;
  }

  /** The store's own warning, if it has changed since the last call for the same kind of receiver. */
  nextWarning({ warning }: Store, receiver: WarningReceiver): string | undefined {
    if (warning === this.lastWarnings[receiver]) return undefined;
    this.lastWarnings[receiver] = warning;
    return warning;
  }

  /** Whether an error is the first report of a corrupt key. */
  isFirstReport({ code, option }: SluiceError): boolean {
    const { corruptKeys } = this;
    if (code !== "foreign-value" || corruptKeys.has(option) || corruptKeys.size >= MAX_CORRUPT_KEYS) return false;
    corruptKeys.add(copyKey(option));
    return true;
  }

  /**
   * Warns once that decisions are made without the store: if it has never replied, or if its circuit is open. Warns once,
   * too, if calls fail again and again without opening it. Not if a limiter on the store has `onEvent`, which is called with
   * `store-down` and `degraded`.
   */
  warnUnavailable({ error, shard }: StoreFailure, effect: string): void {
    const { breaker, hasReplied } = this.health;
    if (breaker.watchers.size > 0) return;
    if (error.code === "foreign-value") {
      if (this.hasWarnedForeign) return;
      this.hasWarnedForeign = true;
      const message = `A value in the store was not written by sluice, so ${effect} Set onEvent to see its key.`;
      emitProcessWarning("SLUICE_FOREIGN_VALUE", message);
      return;
    }
    // A slow first reply is no outage, but a client that is not connected, or a call that fails, is one at once.
    const isFirstFailure = !hasReplied && (error.option === "client" || error.cause !== undefined);
    if (!(isFirstFailure || breaker.isOpen(shard))) {
      this.warnDegraded(error, effect);
      return;
    }
    if (this.hasWarnedUnavailable) return;
    this.hasWarnedUnavailable = true;
    const message = `The store is unavailable, so ${effect} Cause: ${causeText(error)} Set onEvent to follow outages.`;
    emitProcessWarning("SLUICE_STORE_UNAVAILABLE", message);
  }

  private warnDegraded(error: SluiceError, effect: string): void {
    if (this.hasWarnedDegraded || this.health.breaker.interruptions < MIN_INTERRUPTIONS) return;
    this.hasWarnedDegraded = true;
    const message = `Calls to the store fail now and then, and then ${effect} Cause: ${causeText(error)} Set onEvent to follow failures.`;
    emitProcessWarning("SLUICE_STORE_DEGRADED", message);
  }
}

/** The client's error as text, without the command, which some clients put into their message. */
function causeText(error: SluiceError): string {
  const [text = ""] = describeError(error.cause ?? error).split(/,? command was:/);
  const short = text.length > 200 ? `${text.slice(0, 200)}...` : text;
  return /[.!?]$/.test(short) ? short : `${short}.`;
}

const reports = /* @__PURE__ */ shared("reports", () => new WeakMap<object, StoreReports>());

/** The reports of a store. Stores with the same origin share them. */
export function reportsOf(store: Store): StoreReports {
  const origin = originOf(store);
  let own = reports.get(origin);
  if (!own) reports.set(origin, (own = new StoreReports(healthOf(store))));
  return own;
}

/** The members of a part that the warning of its store is emitted with. */
interface StorePart {
  readonly engine: { readonly store: Store };
  readonly context: { readonly onEvent: OnEvent | undefined };
  readonly observed?: EventTarget["observed"];
  readonly policy: { readonly name: string };
}

/** Emits the warning of a part's store, once per change. */
export function emitStoreWarning({ engine, context, observed, policy }: StorePart): void {
  const { onEvent } = context;
  if (!onEvent && !observed) return;
  const { store } = engine;
  const own = reportsOf(store);
  const message = onEvent && own.nextWarning(store, "onEvent");
  if (message !== undefined) emit({ onEvent }, { type: "warning", policy: policy.name, message });
  // Without the text of an error, which may contain keys.
  const [observedMessage] = (observed && own.nextWarning(store, "observer"))?.split(": ") ?? [];
  if (observedMessage !== undefined) {
    emit({ onEvent: undefined, observed }, { type: "warning", policy: policy.name, message: observedMessage });
  }
}

/** Emits the failures and recoveries of a part's store. Returns a function that ends that. */
export function watchStore(part: Part): () => void {
  const { engine, context, policy } = part;
  const { onEvent } = context;
  const { name } = policy;
  const health = healthOf(engine.store);
  const watcher: Watcher = {
    // An observer watches the store itself.
    down: (error) => emit({ onEvent }, { type: "store-down", policy: name, error }),
    up: (downMs) => emit({ onEvent }, { type: "store-up", policy: name, downMs }),
    degraded: (error, count) => emit({ onEvent }, { type: "degraded", policy: name, error, count }),
  };
  if (onEvent) health.watch(watcher);
  emitStoreWarning(part);
  return () => health.unwatch(watcher);
}
