/** Blocks and unblocks a key: what holding and settling a penalty means. */
import type { HoldEngine } from "../core/charge.ts";
import { change, unchanged, view } from "../core/decide.ts";
import type { Decision } from "../core/decision.ts";
import type { PlainState } from "../core/state.ts";
import { peek } from "../core/step.ts";

/** Decides charges in modes `hold` and `settle` to penalties. */
export const blockEngine: HoldEngine = {
  // Blocking a key is never denied.
  fits: () => true,

  decide(state, charge, now) {
    const { mode, hold } = charge;
    return change(state as PlainState | undefined, charge, (bucket) => {
      const { algorithm, cells } = bucket;
      if (mode === "hold") algorithm.block?.(cells, 0, now, hold?.forMs ?? 0);
      const isMissing = mode === "settle" && !algorithm.unblock?.(cells, 0, now);
      const decision = peek(bucket, mode === "hold" ? 1 : 0, now);
      return isMissing ? notSettled(decision) : decision;
    });
  },

  deny(state, charge, now) {
    const decision = peek(view(state as PlainState | undefined, charge), 0, now);
    return unchanged(state, charge.mode === "settle" ? notSettled(decision) : decision);
  },

  describe: () => ({}),
};

/** A settlement that had no effect. */
function notSettled({ policy, limit, remaining, resetAfterMs, nextAfterMs }: Decision): Decision {
  return { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs: null };
}
