/** Merges the decisions on several parts into one. The limiting part supplies the numbers. */
import type { Decision } from "../core/decision.ts";
import { recordUnknownGrant } from "../core/grant.ts";

type Draft = { -readonly [K in keyof Decision]: Decision[K] } & { delayMs?: number };

/** Allowed if every part is. A denial has the longest wait, an allowed decision the least remaining. */
export function merge(parts: readonly Decision[]): Decision {
  let limiting = parts[0] as Decision;
  for (const part of parts) if (isTighter(part, limiting)) limiting = part;
  const { policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs } = limiting;
  const merged = (
    limiting.allowed
      ? { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs, parts }
      : { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs, parts }
  ) as Draft;
  for (const part of parts) {
    if (part.degraded) merged.degraded = true;
    if (part.approximate) merged.approximate = true;
    if (part.unknown) merged.unknown = true;
    if (limiting.allowed && part.delayMs !== undefined) merged.delayMs = Math.max(merged.delayMs ?? 0, part.delayMs);
  }
  if (limiting.held !== undefined) merged.held = limiting.held;
  const earliest = limiting.allowed ? undefined : earliestRetry(parts, limiting.retryAfterMs);
  if (earliest !== undefined) Object.assign(merged, { earliestRetryMs: earliest });
  if (!limiting.allowed && limiting.unavailable) Object.assign(merged, { unavailable: true });
  const source = limiting.source ?? parts.find((part) => part.source)?.source;
  if (source) merged.source = source;
  // The parts have the times of their grants.
  recordUnknownGrant(merged as Decision, 0);
  return merged as Decision;
}

/** The earliest wait after which all denied parts could fit, if it is shorter than that of the limiting part. */
function earliestRetry(parts: readonly Decision[], retryAfterMs: number | null): number | undefined {
  if (retryAfterMs === null) return undefined;
  let earliest = 0;
  for (const part of parts) {
    if (!part.allowed) earliest = Math.max(earliest, part.earliestRetryMs ?? part.retryAfterMs ?? 0);
  }
  return earliest < retryAfterMs ? earliest : undefined;
}

/** Whether `a` restricts the caller more than `b`. */
function isTighter(a: Decision, b: Decision): boolean {
  if (a.allowed) {
    return b.allowed && (a.remaining < b.remaining || (a.remaining === b.remaining && a.resetAfterMs > b.resetAfterMs));
  }
  if (b.allowed) return true;
  // Never is longer than any wait.
  if (a.retryAfterMs === null || b.retryAfterMs === null) return b.retryAfterMs !== null;
  return a.retryAfterMs > b.retryAfterMs;
}
