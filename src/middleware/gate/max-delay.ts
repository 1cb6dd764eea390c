/** Turns an allowed decision whose delay exceeds `maxDelayMs` into a denied one. */
import type { Allowed, Denied } from "../../core/decision.ts";

/** The decision after its refund. `costAt` returns the cost that was charged to a part, by its index. */
export function deniedForDelay(decision: Allowed, maxDelayMs: number, costAt: (index: number) => number): Denied {
  const parts = (decision.parts ?? [decision]).map((part, i) => {
    const refunded = { ...part, remaining: Math.min(part.limit, part.remaining + costAt(i)) };
    const excessMs = (part.delayMs ?? 0) - maxDelayMs;
    return excessMs > 0
      ? ({ ...refunded, allowed: false, delayMs: undefined, retryAfterMs: excessMs } as Denied)
      : refunded;
  });
  // The denied part with the longest wait limits the request.
  const limiting = parts.reduce((a, b) => ((b.retryAfterMs ?? 0) > (a.retryAfterMs ?? 0) ? b : a));
  const { policy, limit, remaining, resetAfterMs, nextAfterMs } = limiting;
  const { degraded, approximate, source } = decision;
  return {
    allowed: false,
    policy,
    limit,
    remaining,
    resetAfterMs,
    nextAfterMs,
    retryAfterMs: (decision.delayMs ?? 0) - maxDelayMs,
    ...(decision.parts ? { parts } : {}),
    ...(degraded ? { degraded } : {}),
    ...(approximate ? { approximate } : {}),
    ...(source ? { source } : {}),
  };
}
