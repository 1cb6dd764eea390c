/** Measures the CPU time of one call, in batches. */
import { ms } from "./settings.js";

/** Calls per batch. */
export const BATCH = 1000;
/** A batch may use many code paths once, so that a slow variant needs more time than `ms` to be optimised. */
const MIN_BATCHES = 60;

/** CPU time per request in microseconds, of all threads: other programs on the machine affect it less than the time. */
export function cpuPerCall(batch) {
  const start = performance.now();
  const before = process.cpuUsage();
  let batches = 0;
  while (batches < MIN_BATCHES || performance.now() - start < ms) {
    batch();
    batches++;
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / (batches * BATCH);
}
