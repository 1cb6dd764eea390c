/** Measures work in slices, whatever else the machine does meanwhile. */
import { vi } from "vitest";

/** Time for which a slice starts further steps; twice, because one work may start in the task in which another one ends. */
const SLICE_MS = 2 * 5;
/** A garbage collection can prolong any step, but not the same step each time. */
const MAX_ATTEMPTS = 6;

/**
 * Returns the longest slice of the work in ms, without garbage collections: each attempt does the same steps, and the least time of
 * each counts. Stops as soon as no slice is longer than `enoughMs`.
 */
export async function longestSliceOf(
  prepare: (attempt: number) => () => Promise<unknown>,
  enoughMs: number,
): Promise<number> {
  let least = await timeSteps(prepare(0));
  for (let attempt = 1; attempt < MAX_ATTEMPTS && longestRun(least) > enoughMs; attempt++) {
    const times = await timeSteps(prepare(attempt));
    if (times.length !== least.length) throw new Error(`${times.length} steps instead of ${least.length}`);
    least = least.map((time, i) => Math.min(time, times[i] as number));
  }
  return longestRun(least);
}

/** Does the work with a clock that allows one step per slice, and returns the time of each step in ms. */
async function timeSteps(work: () => Promise<unknown>): Promise<readonly number[]> {
  const schedule = globalThis.setImmediate;
  const times: number[] = [];
  let [start, startCpu] = [process.hrtime.bigint(), process.cpuUsage()];
  const begin = (): void => {
    [start, startCpu] = [process.hrtime.bigint(), process.cpuUsage()];
  };
  const end = (): void => {
    const elapsedMs = Number(process.hrtime.bigint() - start) / 1e6;
    const { user, system } = process.cpuUsage(startCpu);
    // Elapsed time includes other processes, CPU time other threads: neither is less than what the step took.
    times.push(Math.min(elapsedMs, (user + system) / 1000));
  };
  // A slice asks for the time when it starts and before each step, and starts no step after 5 ms.
  let now = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => (now += 3));
  vi.stubGlobal("setImmediate", (run: () => void) => {
    end();
    schedule(() => {
      begin();
      run();
    });
  });
  try {
    begin();
    await work();
    end();
  } finally {
    vi.stubGlobal("setImmediate", schedule);
    clock.mockRestore();
  }
  return times;
}

/** The longest slice that can start at any step. */
function longestRun(times: readonly number[]): number {
  let longest = 0;
  for (const first of times.keys()) {
    let length = 0;
    for (let i = first; i < times.length && length < SLICE_MS; i++) length += times[i] as number;
    longest = Math.max(longest, length);
  }
  return longest;
}
