/** What all servers expect of `onLimited`. */
import { optionError, type SluiceError } from "../../core/errors.ts";

/** How long `onLimited` may take to give a response. Without a bound, a callback that is never called would hang requests. */
export const MAX_ON_LIMITED_MS = 10_000;

/** The error for a result that can't be sent. */
export function unusableResult(expected: string, received: unknown): SluiceError {
  return optionError("invalid-option", "onLimited", expected, received);
}

/** The error for one that sends nothing in time. */
export function lateResult(how: string): SluiceError {
  return optionError("invalid-option", "onLimited", `a response within ${MAX_ON_LIMITED_MS / 1000} s: ${how}`);
}
