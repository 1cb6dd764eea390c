/** The five pure algorithms, for people who write stores. No clock, no I/O: time is an argument. */
export { type CompiledPolicy, compilePolicy } from "../core/compile.ts";
export type { Algorithm, Cells } from "./algorithm.ts";
export { algorithms } from "./algorithms.ts";
export { type DecideResult, decide } from "./decide.ts";
export { fixedWindow } from "./fixed-window.ts";
export { leakyBucket } from "./leaky-bucket.ts";
export { slidingLog } from "./sliding-log.ts";
export { slidingWindow } from "./sliding-window.ts";
export { fits, peek, refund, take, usage } from "./step.ts";
export { tokenBucket } from "./token-bucket.ts";
