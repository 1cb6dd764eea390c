/** `sluice/algorithms`: the pure algorithms and the group engine, for store authors. Time is an argument; there is no I/O. */
export type { Algorithm, Cells } from "../algorithms/algorithm.ts";
export { algorithms } from "../algorithms/algorithms.ts";
export { compilePolicy } from "../algorithms/compile-policy.ts";
export { decide, decideGroup, type ReadState } from "../algorithms/decide.ts";
export type { DecideResult } from "../algorithms/decide-result.ts";
export { describeState, type StateDescription } from "../algorithms/describe-state.ts";
export type { Debt, HeldState, PlainState, State, StoredHold } from "../algorithms/held-state.ts";
export type { PolicyForm } from "../algorithms/policy-form.ts";
export { type Bucket, fits, peek, refund, take, usage } from "../algorithms/step.ts";
export type { CompiledPolicy, PolicyNumbers } from "../core/compiled-policy.ts";
