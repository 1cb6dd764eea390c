/** Many decisions as one. The part that binds gives the figures. */
import type { Decision } from "../core/decision.ts";
import { recordUnknownGrant } from "../core/grant.ts";

type Draft = { -readonly [K in keyof Decision]: Decision[K] } & { delayMs?: number };

/** Allowed if every part is. A denial reports the longest wait, an allowance the least remaining. */
export function merge(parts: readonly Decision[]): Decision {
  let binding = parts[0] as Decision;
  for (const part of parts) if (isTighter(part, binding)) binding = part;
  const { policy, limit, remaining, resetAfterMs, nextAfterMs } = binding;
  const whole = (
    binding.allowed
      ? { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs, parts }
      : {
          allowed: false,
          policy,
          limit,
          remaining,
          resetAfterMs,
          nextAfterMs,
          retryAfterMs: binding.retryAfterMs,
          parts,
        }
  ) as Draft;
  for (const part of parts) {
    if (part.degraded) whole.degraded = true;
    if (part.approximate) whole.approximate = true;
    if (part.unknown) whole.unknown = true;
    if (binding.allowed && part.delayMs !== undefined) whole.delayMs = Math.max(whole.delayMs ?? 0, part.delayMs);
  }
  if (!binding.allowed && binding.unavailable) Object.assign(whole, { unavailable: true });
  // The time of the grant is that of its parts.
  recordUnknownGrant(whole as Decision, 0);
  return whole as Decision;
}

/** Whether `a` holds the caller back more than `b`. */
function isTighter(a: Decision, b: Decision): boolean {
  if (a.allowed)
    return b.allowed && (a.remaining < b.remaining || (a.remaining === b.remaining && a.resetAfterMs > b.resetAfterMs));
  if (b.allowed) return true;
  // Never is longer than any wait.
  if (a.retryAfterMs === null || b.retryAfterMs === null) return b.retryAfterMs !== null;
  return a.retryAfterMs > b.retryAfterMs;
}
