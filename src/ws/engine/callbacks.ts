/** Calls functions of the application whose faults are not ours, and for which nobody waits. */
import { optionError } from "../../core/errors.ts";
import { isPromise } from "../../core/maybe-promise.ts";
import { describeError, emitProcessWarning, type WarningCode } from "../../core/warnings.ts";

/** Tells a listener, if there is one. What it throws or rejects with goes to `failed`, whose own faults go nowhere. */
export function tell<A extends readonly unknown[]>(
  listener: ((...args: A) => unknown) | undefined,
  failed: ((error: unknown) => unknown) | undefined,
  ...args: A
): void {
  if (!listener) return;
  try {
    const told = listener(...args);
    if (isPromise(told)) Promise.resolve(told).catch((error) => tell(failed, undefined, error));
  } catch (error) {
    tell(failed, undefined, error);
  }
}

/** What a function of the application says that can't be waited for. A promise is refused, also if it fails later. */
export function toldAtOnce<T>(option: string, told: T): T {
  if (!isPromise(told)) return told;
  Promise.resolve(told).catch(() => {});
  throw optionError("invalid-option", option, "a function that tells at once, and not a promise");
}

type Problem = "SLUICE_CALLBACK_FAILED" | "SLUICE_REQUEST_FAILED" | "SLUICE_STORE_UNAVAILABLE";

/** Reports an error that the application can fix. */
export type ReportError = (error: unknown, problem?: Problem) => void;

const PROBLEMS: Readonly<Record<Problem & WarningCode, string>> = {
  SLUICE_CALLBACK_FAILED: "A callback of a WebSocket guard failed",
  SLUICE_REQUEST_FAILED: "A WebSocket connection could not be checked and was rejected",
  SLUICE_STORE_UNAVAILABLE: "A WebSocket message could not be checked and was rejected",
};

/** Passes errors to `onError`. Without it, the first error of each kind becomes a process warning. */
export function errorReporter(onError: ((error: unknown) => unknown) | undefined): ReportError {
  if (onError) return (error) => tell(onError, undefined, error);
  const warned = new Set<string>();
  return (error, problem = "SLUICE_CALLBACK_FAILED") => {
    if (warned.has(problem)) return;
    warned.add(problem);
    emitProcessWarning(
      problem,
      `${PROBLEMS[problem]}: ${describeError(error)}. Set onError to handle every such error.`,
    );
  };
}
