/** `sluice/algorithms`: the pure algorithms and the group engine, for store authors. Time is an argument; there is no I/O. */

export type { Algorithm, Cells } from "../algorithms/algorithm.ts";
export { algorithms } from "../algorithms/algorithms.ts";
export { type DecideResult, decide } from "../algorithms/decide.ts";
export { fixedWindow } from "../algorithms/fixed-window.ts";
export { leakyBucket } from "../algorithms/leaky-bucket.ts";
export { slidingLog } from "../algorithms/sliding-log.ts";
export { slidingWindow } from "../algorithms/sliding-window.ts";
export { fits, peek, refund, take, usage } from "../algorithms/step.ts";
export { tokenBucket } from "../algorithms/token-bucket.ts";
export { type CompiledPolicy, compilePolicy } from "../core/compile.ts";
