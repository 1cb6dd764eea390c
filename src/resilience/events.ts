/** What a limiter tells of itself, besides its decisions. */
import type { SluiceError } from "../core/errors.ts";
import { describeError, emitProcessWarning } from "../core/warnings.ts";

/** Something that happened, told once. */
export type LimiterEvent =
  /** The store has failed several times in a row: decisions are made without it until it is back. */
  | { readonly type: "store-down"; readonly policy: string; readonly error: SluiceError }
  /** The store answers again, and decides again. */
  | { readonly type: "store-up"; readonly policy: string; readonly downMs: number }
  /** A key of the store holds what no limiter wrote there: it is decided without the store until it is reset. */
  | { readonly type: "foreign-value"; readonly policy: string; readonly error: SluiceError }
  /** What was taken could not be given back, and is lost to its key until it refills. */
  | { readonly type: "refund-lost"; readonly policy: string; readonly cost: number; readonly error: SluiceError }
  /** Something that works, but not as well as it could. */
  | { readonly type: "warning"; readonly policy: string; readonly message: string };

/** Hears events. It is not awaited, and what it throws or rejects with is dropped: a decision never depends on it. */
export type OnEvent = (event: LimiterEvent) => void;

/** Calls the listener. What it throws must not turn into a denial or an error of the caller's request. */
export function emit(onEvent: OnEvent | undefined, event: LimiterEvent): void {
  if (!onEvent) return;
  try {
    const told: unknown = onEvent(event);
    if (told instanceof Promise) told.catch((error) => warnOfListener(onEvent, error));
  } catch (error) {
    warnOfListener(onEvent, error);
  }
}

const failedListeners = new WeakSet<OnEvent>();

function warnOfListener(onEvent: OnEvent, error: unknown): void {
  if (failedListeners.has(onEvent)) return;
  failedListeners.add(onEvent);
  emitProcessWarning(
    "SLUICE_CALLBACK_FAILED",
    `onEvent threw "${describeError(error)}". Events are lost when it throws.`,
  );
}
