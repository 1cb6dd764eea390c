/** How each kind of policy takes part in a call: a rate takes or holds, concurrency holds, and a penalty watches. */
import { algorithms } from "../algorithms/algorithms.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { SluiceError } from "../core/errors.ts";
import { DEFAULT_HOLD_MS } from "../core/hold.ts";
import { chargeTo, holdTo, type JointCharge, type LimiterPart } from "./limiter-part.ts";

/** Largest limit of a sliding log with holds: while there are holds, each call reads the whole log. */
export const MAX_HELD_LOG_LIMIT = 1000;
/** Longest window or fill time of a policy with holds: ends beyond it would leave the exact numbers. */
export const MAX_HELD_WINDOW_MS: number = 2 ** 50;

/** Whether a policy has a rate. Others limit what is held, or count strikes. */
export function hasRate({ resolved }: CompiledPolicy): boolean {
  return resolved.tokensPerSecond > 0;
}

/** Whether a policy limits how much is held at once. */
export function isConcurrency({ algorithm }: CompiledPolicy): boolean {
  return algorithms[algorithm].holdsOnly === true;
}

/** The charge of `consume`. */
export function takeCharge(part: LimiterPart, key: string, cost: number): JointCharge {
  if (isConcurrency(part.policy)) {
    // A cost of 0 takes nothing, so it can't bypass the limit.
    return cost === 0 ? chargeTo(part, key, 0, "peek") : rejectConsume(part.policy);
  }
  return part.policy.block ? chargeTo(part, key, Math.min(cost, 1), "penalty") : chargeTo(part, key, cost, "take");
}

/** The charge of `peek`. */
export function peekCharge(part: LimiterPart, key: string, cost: number): JointCharge {
  return chargeTo(part, key, hasRate(part.policy) ? cost : Math.min(cost, 1), "peek");
}

/** The charge of `hold`. Throws if the policy or its store does not support holds. */
export function holdCharge(
  part: LimiterPart,
  key: string,
  amount: number,
  hold: { id: string; forMs: number },
  isNewHold: boolean,
): JointCharge {
  if (part.policy.block) return chargeTo(part, key, 1, "penalty");
  checkHoldable(part);
  return holdTo(part, key, amount, hold, isNewHold);
}

/** Throws if the policy or its store does not support holds. */
export function checkHoldable({ policy, port }: LimiterPart): void {
  checkHolds(policy);
  port.store.check?.(policy, false, "hold");
}

/** `consume` on a concurrency limit would limit nothing. */
function rejectConsume({ name }: CompiledPolicy): never {
  throw new SluiceError(
    "unsupported",
    `"${name}" limits what is held at once, so consume() can't be used with it. Use hold(), which returns a hold to settle when the work is done.`,
    { option: "consume", expected: "hold()", received: name },
  );
}

function checkHolds({ algorithm, limit, windowMs, name }: CompiledPolicy): void {
  const { queues, list } = algorithms[algorithm];
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
  const leases = parts.filter(({ policy }) => isConcurrency(policy)).map(({ policy }) => policy.windowMs);
  return leases.length > 0 ? Math.min(...leases) : DEFAULT_HOLD_MS;
}
