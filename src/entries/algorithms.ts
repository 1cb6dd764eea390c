/** `sluice/algorithms`: the pure algorithms and the group engine, for store authors. Time is an argument; there is no I/O. */

export type {
  Algorithm,
  Cells,
  CompiledPolicy,
  EncodedPolicy,
  PolicyForm,
  PolicyKind,
  PolicyNumbers,
} from "../core/compiled-policy.ts";
export type { ReadState } from "../core/decide.ts";
export type { StateDescription } from "../core/describe-state.ts";
export type { Debt, DecideResult, HeldState, PlainState, State, StoredHold } from "../core/state.ts";
export { type Bucket, fits, peek, refund, take, usage } from "../core/step.ts";
export { algorithms } from "../holds/all-algorithms.ts";
export { holdTerms } from "../holds/hold-terms.ts";
export { decide, decideGroup, describeState } from "../holds/with-holds.ts";
export { compilePolicy } from "../policy/compile-policy.ts";
export { decodeCharge, type EncodedCharge, type EncodedTerms, encodeCharge } from "../stores/encode-charge.ts";
