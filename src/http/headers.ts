/**
 * RateLimit fields as data: a decision in, names and values out. The syntax is that of
 * draft-ietf-httpapi-ratelimit-headers-08 to -11; the next draft is a change of this file alone.
 */
import type { Decision } from "../core/decision.ts";
import type { ResolvedPolicy } from "../core/policy.ts";

/** Header names and values, in the order they are to be sent. */
export type HeaderFields = Record<string, string>;

/** One policy, or all of a combination: `limiter.getPolicies?.() ?? limiter.getPolicy()`. */
export type Policies = ResolvedPolicy | readonly ResolvedPolicy[];

/**
 * `RateLimit-Policy` and `RateLimit` for a counted response, allowed or denied. Empty when the figures
 * are not known: a made-up `remaining: 0` would stop polite clients.
 */
export function rateLimitHeaders(decision: Decision, policies: Policies): HeaderFields {
  if (decision.degraded || decision.unknown || (!decision.allowed && decision.unavailable)) return {};
  return {
    "RateLimit-Policy": listOf(policies).map(policyItem).join(", "),
    RateLimit: (decision.parts ?? [decision]).map(quotaItem).join(", "),
  };
}

/** Whole seconds for a header: never 0, never a fraction, never sooner than the truth. */
export function seconds(ms: number): number {
  return clamp(Math.max(1, Math.ceil(ms / 1000)));
}

/** One or many as a list. */
export function listOf(policies: Policies): readonly ResolvedPolicy[] {
  return "algorithm" in policies ? [policies] : policies;
}

function policyItem({ name, limit, windowMs }: ResolvedPolicy): string {
  return `${text(name)};q=${clamp(limit)};w=${seconds(windowMs)}`;
}

function quotaItem({ policy, remaining, nextAfterMs }: Decision): string {
  const until = nextAfterMs > 0 ? `;t=${seconds(nextAfterMs)}` : "";
  return `${text(policy)};r=${clamp(remaining)}${until}`;
}

/** A structured-field String. Names were checked to be printable ASCII when the policy was made. */
function text(value: string): string {
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/** A structured-field Integer has at most 15 digits. */
function clamp(value: number): number {
  return Math.min(value, 999_999_999_999_999);
}
