/** Calls functions of the application whose faults are not ours, and for which nobody waits. */
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
