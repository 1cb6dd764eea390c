/**
 * Token bucket: bursts up to the capacity, then a steady rate.
 *
 * The state is the instant at which the bucket will be full again. Every grant moves it later; time brings it nearer.
 * The instant is `full + part/unitsPerMs` ms, so no fraction of a token is ever rounded away.
 *
 * Plans that share a bucket have the same fill time and may have a different `unitsPerMs`, so the state contains the one
 * it was written with. Another plan rounds the fraction up to its own units and never sees less in use than there is.
 */

import type { Algorithm, Cells, CompiledPolicy } from "./compiled-policy.ts";
import type { Decision } from "./decision.ts";
import { recordGrant } from "./grant.ts";
import { bucketForm } from "../policy/policy-form.ts";

/** Cells: whole milliseconds of the instant, the fraction in 1/unitsPerMs, and that unitsPerMs; without a fraction both are 0. */
export const bucket: Omit<Algorithm, "name" | "form"> = {
  width: 3,
  used,
  wait: (_cells, _at, { unitsPerMs }, _now, amount) => Math.ceil(amount / unitsPerMs),
  reset: (_cells, _at, { unitsPerMs }, _now, used) => Math.ceil(used / unitsPerMs),
  isInFuture: (cells, at, policy, now, used) => used === policy.capacityUnits && isAhead(cells, at, policy, now),

  add(cells, at, policy, now, used, cost) {
    writeFullAt(cells, at, policy, now, used + cost * policy.unitsPerToken);
  },

  // Grants drain in order, so what is left of one is what drains until its end, rounded up to a millisecond.
  refund(cells, at, policy, now, used, cost, grantEndsAt = Number.MAX_SAFE_INTEGER) {
    const given = Math.min(
      Math.min(cost, policy.limit) * policy.unitsPerToken,
      (grantEndsAt - now) * policy.unitsPerMs,
    );
    writeFullAt(cells, at, policy, now, Math.max(0, used - given));
  },

  extraWaitMs: ({ unitsPerToken, unitsPerMs }, extra) => Math.ceil((extra * unitsPerToken) / unitsPerMs),
};

/**
 * The default algorithm, so its `take` is the generic one of step.ts in one function. Engines inline a limited amount of
 * code per path, and numbers of calls that aren't inlined are boxed. Most rates refill one unit per millisecond, which
 * needs no division. Measured in bench/memory-throughput.js.
 */
// Object.assign can be marked as pure. Bundlers keep a spread as a side effect, so every bundle would contain it.
export const tokenBucket: Algorithm = /* @__PURE__ */ Object.assign({}, bucket, {
  name: "token-bucket",
  form: /* @__PURE__ */ bucketForm("token-bucket", "tokensPerSecond", "burst"),

  take(cells, at, policy, cost, now) {
    const { name, limit, unitsPerToken, capacityUnits, unitsPerMs } = policy;
    const before = used(cells, at, policy, now);
    const after = before + cost * unitsPerToken;
    if (after > capacityUnits && cost > 0) return deny(cells, at, policy, cost, now, before);
    if (cost > 0) writeFullAt(cells, at, policy, now, after);
    const remaining = Math.floor((capacityUnits - after) / unitsPerToken);
    const lacking = after === 0 ? 0 : after - (capacityUnits - (remaining + 1) * unitsPerToken);
    const resetAfterMs = unitsPerMs === 1 ? after : Math.ceil(after / unitsPerMs);
    const nextAfterMs = unitsPerMs === 1 ? lacking : Math.ceil(lacking / unitsPerMs);
    const decision: Decision = { allowed: true, policy: name, limit, remaining, resetAfterMs, nextAfterMs };
    return recordGrant(decision, now + resetAfterMs, cost);
  },
} satisfies Partial<Algorithm> & Pick<Algorithm, "name" | "form">);

/** A denied `take`. It leaves the cells alone, except to clamp a state dated in the future. */
function deny(cells: Cells, at: number, policy: CompiledPolicy, cost: number, now: number, before: number): Decision {
  const { name, limit, unitsPerToken, capacityUnits, unitsPerMs } = policy;
  if (before === capacityUnits && cost <= limit && isAhead(cells, at, policy, now))
    writeFullAt(cells, at, policy, now, before);
  const remaining = Math.floor((capacityUnits - before) / unitsPerToken);
  const lacking = before === 0 ? 0 : before - (capacityUnits - (remaining + 1) * unitsPerToken);
  const resetAfterMs = Math.ceil(before / unitsPerMs);
  const nextAfterMs = Math.ceil(lacking / unitsPerMs);
  const retryAfterMs = cost > limit ? null : Math.ceil((before - (capacityUnits - cost * unitsPerToken)) / unitsPerMs);
  return { allowed: false, policy: name, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
}

function used(cells: Cells, at: number, policy: CompiledPolicy, now: number): number {
  const ahead = (cells[at] as number) - now;
  if (ahead < 0) return 0;
  if (ahead > policy.windowMs) return policy.capacityUnits;
  const part = cells[at + 1] as number;
  const used = ahead * policy.unitsPerMs + (part === 0 ? 0 : partIn(policy.unitsPerMs, part, cells[at + 2] as number));
  return used < policy.capacityUnits ? used : policy.capacityUnits;
}

/** Whether the bucket would be full later than an empty one, because the clock has stepped back. */
function isAhead(cells: Cells, at: number, policy: CompiledPolicy, now: number): boolean {
  const ahead = (cells[at] as number) - now;
  if (ahead > policy.windowMs) return true;
  return (
    ahead * policy.unitsPerMs + partIn(policy.unitsPerMs, cells[at + 1] as number, cells[at + 2] as number) >
    policy.capacityUnits
  );
}

/** Converts a fraction `part/writtenUnits` of a millisecond to 1/unitsPerMs, rounded up. */
function partIn(unitsPerMs: number, part: number, writtenUnits: number): number {
  if (part === 0 || unitsPerMs === writtenUnits) return part;
  // In two digits of base 2^16, because part x unitsPerMs may exceed the exact integers.
  const high = part * Math.floor(unitsPerMs / 65_536);
  const quotient = Math.floor(high / writtenUnits);
  const low = (high - quotient * writtenUnits) * 65_536 + part * (unitsPerMs % 65_536);
  return quotient * 65_536 + Math.ceil(low / writtenUnits);
}

/** Writes the units in use as the instant at which they will have refilled. */
function writeFullAt(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number): void {
  const { unitsPerMs } = policy;
  const whole = unitsPerMs === 1 ? used : Math.floor(used / unitsPerMs);
  const part = used - whole * unitsPerMs;
  cells[at] = now + whole;
  if (part === 0 && cells[at + 1] === 0) return;
  cells[at + 1] = part;
  cells[at + 2] = part === 0 ? 0 : unitsPerMs;
}
