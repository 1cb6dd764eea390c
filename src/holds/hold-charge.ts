/** The charges of holds, and which policies support them. */
import { holdTerms } from "./hold-terms.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { SluiceError } from "../core/errors.ts";
import { DEFAULT_HOLD_MS } from "./hold-options.ts";
import { chargeTo, type JointCharge, type LimiterPart } from "../core/limiter-part.ts";
import { holdActs } from "./hold-acts.ts";

/** Largest limit of a sliding log with holds: while there are holds, each call reads the whole log. */
export const MAX_HELD_LOG_LIMIT = 1000;
/** Longest window or fill time of a policy with holds: ends beyond it would leave the exact numbers. */
export const MAX_HELD_WINDOW_MS: number = 2 ** 50;

/** A charge to one part that holds an amount. `isNewHold`: no hold with this id exists. */
export function holdTo(
  { port, policy, failurePolicy }: LimiterPart,
  key: string,
  cost: number,
  { id, forMs }: { readonly id: string; readonly forMs: number },
  isNewHold: boolean,
): JointCharge {
  const hold = holdTerms(id, forMs);
  return { port, policy, failurePolicy, key, cost, mode: "hold", hold, isNewHold, acts: holdActs };
}

/** The charge of `hold`. Throws if the policy or its store does not support holds. */
export function holdCharge(
  part: LimiterPart,
  key: string,
  amount: number,
  hold: { readonly id: string; readonly forMs: number },
  isNewHold: boolean,
): JointCharge {
  if (part.policy.kind === "penalty") return chargeTo(part, key, 1, "penalty");
  checkHoldable(part);
  return holdTo(part, key, amount, hold, isNewHold);
}

/** The limiters whose policy and store are known to support holds, by their failure policy. */
const holdable = /* @__PURE__ */ new WeakSet<object>();

/** Throws if the policy or its store does not support holds. */
export function checkHoldable({ policy, port, failurePolicy }: LimiterPart): void {
  // An observed limiter has a copy of the failure policy.
  const owner = failurePolicy.copyOf ?? failurePolicy;
  if (holdable.has(owner)) return;
  checkHolds(policy);
  port.store.check?.(policy, false, "hold");
  holdable.add(owner);
}

function checkHolds({ algorithm, limit, windowMs, name }: CompiledPolicy): void {
  const { queues, list } = algorithm;
  if (queues) {
    const message = "A leaky bucket does not support holds, because it promises each charge its place in the queue.";
    throw new SluiceError("unsupported", message, { option: "hold", expected: "another algorithm", received: name });
  }
  if (list && limit > MAX_HELD_LOG_LIMIT) {
    const message = `Holds on a sliding log need a limit of at most ${MAX_HELD_LOG_LIMIT}. Use a sliding window or a token bucket.`;
    throw new SluiceError("out-of-range", message, { option: "limit", expected: "a smaller limit", received: limit });
  }
  if (windowMs > MAX_HELD_WINDOW_MS) {
    const message = "Holds need a window or fill time of at most 2^50 ms. Use a shorter window or a higher rate.";
    throw new SluiceError("out-of-range", message, {
      option: "hold",
      expected: "a shorter window",
      received: windowMs,
    });
  }
}

/** The default duration of a hold on several parts: the shortest lease, in ms. */
export function leaseOf(parts: readonly LimiterPart[]): number {
  const leases = parts.filter(({ policy }) => policy.kind === "concurrency").map(({ policy }) => policy.windowMs);
  return leases.length > 0 ? Math.min(...leases) : DEFAULT_HOLD_MS;
}
