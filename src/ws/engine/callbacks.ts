/** Invokes application callbacks: not awaited, errors reported but never propagated. */
import { SluiceError } from "../../base/errors.ts";
import { isPromise } from "../../base/maybe-promise.ts";
import { describeError, emitProcessWarning, type WarningCode } from "../../base/warnings.ts";

/**
 * Calls a listener, if there is one, without awaiting it. An error that it throws or rejects with is passed to `onFailure`;
 * errors of `onFailure` are ignored.
 */
export function callListener<A extends readonly unknown[]>(
  listener: ((...args: A) => unknown) | undefined,
  onFailure: ((error: unknown) => unknown) | undefined,
  ...args: A
): void {
  if (!listener) return;
  try {
    const result = listener(...args);
    if (isPromise(result)) Promise.resolve(result).catch((error) => callListener(onFailure, undefined, error));
  } catch (error) {
    callListener(onFailure, undefined, error);
  }
}

/** Returns the result of a callback that must be synchronous. Throws if it is a promise, whose rejection is ignored. */
export function requireSync<T>(option: string, result: T): T {
  if (!isPromise(result)) return result;
  Promise.resolve(result).catch(() => {});
  const expected = "a synchronous function";
  throw new SluiceError("invalid-option", `${option} must be ${expected}, but it returned a promise.`, {
    option,
    expected,
  });
}

type GuardWarning = "SLUICE_CALLBACK_FAILED" | "SLUICE_REQUEST_FAILED" | "SLUICE_STORE_UNAVAILABLE";

/** Reports an error that the application can fix. */
export type ReportError = (error: unknown, warning?: GuardWarning) => void;

const WARNINGS: Readonly<Record<GuardWarning & WarningCode, string>> = {
  SLUICE_CALLBACK_FAILED: "A callback of a WebSocket guard failed",
  SLUICE_REQUEST_FAILED: "A WebSocket connection could not be checked and was rejected",
  SLUICE_STORE_UNAVAILABLE: "A WebSocket message could not be checked and was rejected",
};

/** Passes errors to `onError`. Without it, the first error of each kind becomes a process warning. */
export function errorReporter(onError: ((error: unknown) => unknown) | undefined): ReportError {
  if (onError) return (error) => callListener(onError, undefined, error);
  const warned = new Set<string>();
  return (error, warning = "SLUICE_CALLBACK_FAILED") => {
    if (warned.has(warning)) return;
    warned.add(warning);
    emitProcessWarning(
      warning,
      `${WARNINGS[warning]}: ${describeError(error)}. Set onError to handle every such error.`,
    );
  };
}
