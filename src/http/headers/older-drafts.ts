/** RateLimit fields of draft 7, of draft 6 and before, and `X-RateLimit-*`: they describe one policy only. */
import { wallClockMs } from "../../base/clock.ts";
import type { Decision } from "../../core/decision.ts";
import type { FieldStyle, HeaderContext, HeaderFields, WriteFields } from "./field-writer.ts";
import { isConcurrency, isPenalty, type Policies, policyList, reportedParts, waitBefore } from "./policies.ts";
import { clampInteger, toSeconds } from "./structured-fields.ts";

/** Writes `RateLimit` as a dictionary, and `RateLimit-Policy`. */
export const writeDraft7: WriteFields = (decision, policies, style) => {
  const numbers = tightest(decision, policies);
  if (!numbers) return {};
  const { limit, remaining, reset } = numbers;
  return { ...policyField(policies, style), RateLimit: `limit=${limit}, remaining=${remaining}, reset=${reset}` };
};

/** Writes `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` and `RateLimit-Policy`. */
export const writeDraft6: WriteFields = (decision, policies, style) => {
  const numbers = tightest(decision, policies);
  if (!numbers) return {};
  const { limit, remaining, reset } = numbers;
  return {
    ...policyField(policies, style),
    "RateLimit-Limit": String(limit),
    "RateLimit-Remaining": String(remaining),
    "RateLimit-Reset": String(reset),
  };
};

/** Writes `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`. */
export const writeLegacy: WriteFields = (decision, policies, { resetIsDelta }, { now = wallClockMs() }) => {
  const numbers = tightest(decision, policies);
  if (!numbers) return {};
  const { limit, remaining, reset, resetMs } = numbers;
  return {
    "X-RateLimit-Limit": String(limit),
    "X-RateLimit-Remaining": String(remaining),
    "X-RateLimit-Reset": String(resetIsDelta ? reset : clampInteger(Math.ceil((now + resetMs) / 1000))),
  };
};

/** Writes what is known of the decision of a third-party limiter, which may have `allowed` and `remaining` only. */
export function writeKnown(
  decision: Decision,
  { resetIsDelta }: FieldStyle,
  { now = wallClockMs() }: HeaderContext,
): HeaderFields {
  const { limit, remaining, resetAfterMs } = decision as Partial<Decision>;
  const resetMs = (decision.allowed ? undefined : waitBefore(decision)) ?? resetAfterMs;
  const fields: HeaderFields = {};
  if (isAmount(limit)) fields["X-RateLimit-Limit"] = String(clampInteger(Math.floor(limit)));
  if (isAmount(remaining)) fields["X-RateLimit-Remaining"] = String(clampInteger(Math.floor(remaining)));
  if (isAmount(resetMs)) {
    fields["X-RateLimit-Reset"] = String(clampInteger(Math.ceil((resetIsDelta ? resetMs : now + resetMs) / 1000)));
  }
  return fields;
}

function isAmount(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value < Infinity;
}

/** `RateLimit-Policy` by policies, since policies don't change. */
const cachedFields = new WeakMap<Policies, string>();

/** Drafts before 8 identify a policy by its quota: of two policies with the same quota, the longer window is written. */
function policyField(policies: Policies | undefined, { warn }: FieldStyle): HeaderFields {
  if (!policies) return {};
  let field = cachedFields.get(policies);
  if (field === undefined) {
    const windows = new Map<number, number>();
    for (const policy of policyList(policies)) {
      const { limit, windowMs } = policy;
      // These drafts have no policies without a window.
      if (isPenalty(policy) || isConcurrency(policy)) continue;
      if (windows.has(limit)) {
        warn(`Drafts before 8 can't list two policies of ${limit}, so the one with the shorter window is left out.`);
      }
      windows.set(limit, Math.max(windowMs, windows.get(limit) ?? 0));
    }
    field = Array.from(windows, ([limit, ms]) => `${clampInteger(limit)};w=${toSeconds(ms)}`).join(", ");
    cachedFields.set(policies, field);
  }
  return field === "" ? {} : { "RateLimit-Policy": field };
}

/** The policy with the least remaining; of equals, the one with the longest wait. */
function tightest(
  decision: Decision,
  policies: Policies | undefined,
): { limit: number; remaining: number; reset: number; resetMs: number } | undefined {
  const parts = reportedParts(decision, policies).map(({ part }) => part);
  // A penalty alone has no numbers of its own.
  if (parts.length === 0) return undefined;
  const chosen = parts.reduce((least, part) =>
    part.remaining < least.remaining || (part.remaining === least.remaining && waitOf(part) > waitOf(least))
      ? part
      : least,
  );
  // The reset of a denial is its Retry-After, so a client gets the same time from either field.
  const resetMs = decision.allowed ? chosen.resetAfterMs : (waitBefore(decision) ?? chosen.resetAfterMs);
  return {
    limit: clampInteger(Math.floor(chosen.limit)),
    remaining: clampInteger(Math.floor(chosen.remaining)),
    reset: clampInteger(Math.ceil(resetMs / 1000)),
    resetMs,
  };
}

function waitOf({ retryAfterMs, resetAfterMs }: Decision): number {
  return retryAfterMs ?? resetAfterMs;
}
