/** What a request is told that a queue would hold for longer than anyone waits. */
import type { Allowed, Denied } from "../../core/decision.ts";

/** The decision as it is once the request has left the queues that would hold it for too long. */
export function deniedForDelay(decision: Allowed, cost: number, maxDelayMs: number): Denied {
  const parts = decision.parts?.map((part) => {
    const given = { ...part, remaining: Math.min(part.limit, part.remaining + cost) };
    const late = (part.delayMs ?? 0) - maxDelayMs;
    return late > 0 ? ({ ...given, allowed: false, delayMs: undefined, retryAfterMs: late } as Denied) : given;
  });
  const held = (decision.parts ?? [decision]).reduce((a, b) => ((b.delayMs ?? 0) > (a.delayMs ?? 0) ? b : a));
  const { policy, limit, remaining, resetAfterMs, nextAfterMs } = held;
  const { degraded, approximate } = decision;
  return {
    allowed: false,
    policy,
    limit,
    remaining: Math.min(limit, remaining + cost),
    resetAfterMs,
    nextAfterMs,
    retryAfterMs: (decision.delayMs ?? 0) - maxDelayMs,
    ...(parts ? { parts } : {}),
    ...(degraded ? { degraded } : {}),
    ...(approximate ? { approximate } : {}),
  };
}
