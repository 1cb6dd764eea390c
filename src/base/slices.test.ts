/** Tests work in slices. Time is fake. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { runInSlices, runSteps, type Steps } from "./slices.ts";

let now = 0;
const tasks: (() => void)[] = [];
beforeEach(() => {
  tasks.length = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  vi.stubGlobal("setImmediate", (run: () => void) => tasks.push(run));
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** Runs the next slice. */
async function nextSlice(): Promise<void> {
  tasks.shift()?.();
  for (let i = 0; i < 5; i++) await Promise.resolve();
}

/** Work of so many steps, each of which takes `stepMs`. */
function work(steps: number, stepMs: number) {
  const state = { done: 0 };
  function* run(): Steps<string> {
    while (state.done < steps) {
      now += stepMs;
      state.done++;
      yield;
    }
    return "result";
  }
  return { state, run };
}

describe("runInSlices", () => {
  it.each([
    [1, 5],
    [2, 3],
    [7, 1],
    // The clock of Workers stands still while code runs.
    [0, 16],
  ])(
    "with steps of %d ms runs %d of them in a slice, and lets other tasks run in between",
    async (stepMs, perSlice) => {
      const { state, run } = work(100, stepMs);
      const result = runInSlices(run(), () => true);
      for (let slices = 1; state.done < 100; slices++) {
        expect(state.done).toBe(Math.min(100, perSlice * slices));
        await nextSlice();
      }
      await nextSlice();
      expect(await result).toBe("result");
    },
  );

  it("stops if the work is no longer wanted", async () => {
    const { state, run } = work(100, 1);
    let isWanted = true;
    const result = runInSlices(run(), () => isWanted);
    isWanted = false;
    await nextSlice();
    expect(await result).toBeUndefined();
    expect(state.done).toBe(5);
    expect(tasks).toEqual([]);
  });

  it("works without setImmediate", async () => {
    vi.stubGlobal("setImmediate", undefined);
    expect(await runInSlices(work(100, 1).run(), () => true)).toBe("result");
  });
});

describe("runSteps", () => {
  it("does all of the work at once", () => {
    expect(runSteps(work(100, 7).run())).toBe("result");
  });
});
