/** The charges of holds, and which policies support them. */

import { SluiceError } from "../base/errors.ts";
import type { Part, PartCharge } from "../core/apply.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { chargeTo } from "../core/part-charges.ts";
import { DEFAULT_HOLD_MS } from "./hold-options.ts";
import { holdTerms } from "./hold-terms.ts";

/** Largest limit of a sliding log with holds: while there are holds, each call reads the whole log. */
export const MAX_HELD_LOG_LIMIT = 1000;
/** Longest window or fill time of a policy with holds: ends beyond it would leave the exact numbers. */
export const MAX_HELD_WINDOW_MS: number = 2 ** 50;

/** A charge to one part that holds an amount. `isNewHold`: no hold with this id exists. */
export function holdTo(
  part: Part,
  key: string,
  cost: number,
  { id, forMs }: { readonly id: string; readonly forMs: number },
  isNewHold: boolean,
): PartCharge {
  const { engine, policy, context, observed } = part;
  return { engine, policy, context, observed, key, cost, mode: "hold", hold: holdTerms(id, forMs), isNewHold };
}

/** The charge of `hold`. Throws if the policy or its store does not support holds. */
export function holdCharge(
  part: Part,
  key: string,
  amount: number,
  hold: { readonly id: string; readonly forMs: number },
  isNewHold: boolean,
): PartCharge {
  if (part.policy.kind === "penalty") return chargeTo(part, key, 1, "penalty");
  checkHoldable(part);
  return holdTo(part, key, amount, hold, isNewHold);
}

/** The limiters whose policy and store are known to support holds, by their context. */
const holdable = /* @__PURE__ */ new WeakSet<object>();

/** Throws if the policy or its store does not support holds. */
export function checkHoldable({ policy, engine, context }: Part): void {
  if (holdable.has(context)) return;
  checkHolds(policy);
  engine.store.check?.(policy, false, "hold");
  holdable.add(context);
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
export function leaseOf(parts: readonly Part[]): number {
  const leases = parts.filter(({ policy }) => policy.kind === "concurrency").map(({ policy }) => policy.windowMs);
  return leases.length > 0 ? Math.min(...leases) : DEFAULT_HOLD_MS;
}
