/** Errors of `onLimited`, which all servers report alike. */
import { SluiceError, show } from "../../base/errors.ts";

/** Maximum time for `onLimited` to respond, in ms. Without a bound, a callback that is never called would hang requests. */
export const MAX_ON_LIMITED_MS = 10_000;

/** The error for a result that can't be sent. Read `expected` after "must return". */
export function unusableResult(expected: string, received: unknown): SluiceError {
  const message = `onLimited must return ${expected}, but returned ${show(received)}.`;
  return new SluiceError("invalid-option", message, { option: "onLimited", expected, received });
}

/** The error for a callback that sends nothing in time. `fix` is a sentence. */
export function lateResult(fix: string): SluiceError {
  const message = `onLimited did not send a response within ${MAX_ON_LIMITED_MS / 1000} s. ${fix}`;
  return new SluiceError("invalid-option", message, { option: "onLimited", expected: fix });
}
