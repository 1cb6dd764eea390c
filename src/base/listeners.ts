/** Calls listeners of the application: not awaited, and their errors never reach the caller. */
import { shared } from "./shared-state.ts";
import { describeError, emitProcessWarning } from "./warnings.ts";

const failedListeners = /* @__PURE__ */ shared("failedListeners", () => new WeakSet<object>());

/** Calls a listener. If it throws or rejects, a process warning names it, once per listener. */
export function callListener<Event>(
  name: string,
  listener: ((event: Event) => unknown) | undefined,
  event: Event,
): void {
  if (!listener) return;
  const warn = (error: unknown): void => {
    if (failedListeners.has(listener)) return;
    failedListeners.add(listener);
    emitProcessWarning(
      "SLUICE_CALLBACK_FAILED",
      `${name} threw "${describeError(error)}". Events are lost when it throws.`,
    );
  };
  try {
    const result = listener(event);
    if (result instanceof Promise) result.catch(warn);
  } catch (error) {
    warn(error);
  }
}
