/** Calls functions of the application whose faults are not ours, and for which nobody waits. */
import { SluiceError } from "../core/errors.ts";
import { isPromise } from "../core/maybe-promise.ts";

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
  throw new SluiceError("invalid-option", option, "a function that tells at once, and not a promise");
}
