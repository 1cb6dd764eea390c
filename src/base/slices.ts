/** Runs long work in slices, so that a large list or many rules do not block the event loop. */
import { monotonicMs } from "./clock.ts";

/** Work that yields about every half millisecond. */
export type Steps<T> = Generator<undefined, T, undefined>;

/** Length of a slice in ms. The budget is 20: the rest is for the last step and for garbage collection. */
const SLICE_MS = 5;
/** Steps per slice, for Workers: their clock stands still while code runs. */
const MAX_STEPS = 16;

/** Does all of the work at once. */
export function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Does the work in slices, and lets other tasks run between them. Resolves with `undefined` if `isWanted` becomes false. */
export async function runInSlices<T>(steps: Steps<T>, isWanted: () => boolean): Promise<T | undefined> {
  while (isWanted()) {
    const end = monotonicMs() + SLICE_MS;
    for (let i = 0; i < MAX_STEPS && monotonicMs() < end; i++) {
      const step = steps.next();
      if (step.done) return step.value;
    }
    await nextTask();
  }
  return undefined;
}

function nextTask(): Promise<void> {
  const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => unknown };
  return new Promise((resolve) => void (setImmediate ? setImmediate(resolve) : setTimeout(resolve, 0)));
}
