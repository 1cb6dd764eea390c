/** The replies of a Durable Object: encoded in the object, decoded in the Worker. */

import { SluiceError, show } from "../../../../base/errors.ts";
import type { Charge } from "../../../../core/charge.ts";
import type { CompiledPolicy } from "../../../../core/compiled-policy.ts";
import type { Decision, DecisionFields, Denied } from "../../../../core/decision.ts";
import type { StateDescription } from "../../../../core/describe-state.ts";
import { grantEnd, recordGrant } from "../../../../core/grant.ts";
import { PROTOCOL_VERSION } from "./calls.ts";

/**
 * A decision without the policy, which the Worker has. A tuple, because a call returns up to 1024 of them and structured
 * clone repeats the member names of every record: 22 bytes instead of 74.
 */
export type WireDecision = readonly [
  allowed: 0 | 1,
  remaining: number,
  resetAfterMs: number,
  nextAfterMs: number,
  /** `retryAfterMs` of a denied decision, `delayMs` of an allowed one (0 unless it is a leaky bucket). */
  waitMs: number | null,
  /** Present only if the bucket has holds, or the decision is a settlement. */
  holds?: WireHolds,
];

/** The fields of a decision on a bucket with holds. */
interface WireHolds extends Pick<Denied, "held" | "forgiven" | "earliestRetryMs"> {
  /** When the grant of an allowed `take` expires, in milliseconds since the epoch: not when all holds have ended. */
  readonly grantEndsAt?: number;
}

/** The decisions of an `ApplyCall`. */
export interface ApplyReply {
  readonly version: number;
  /** The object's time, in milliseconds since the epoch. */
  readonly now: number;
  /** One decision per charge, in the order of the call. */
  readonly groups: readonly (readonly WireDecision[])[];
}

/** The state of one bucket. */
export interface InspectReply {
  readonly version: number;
  /** Its numbers, holds and strikes. */
  readonly description: Omit<StateDescription, "policy">;
  /** The stored text; `null` if there is none. */
  readonly raw: string | null;
  /** Milliseconds until the row is deleted; `null` if there is none. */
  readonly ttlMs: number | null;
}

/** Encodes a decision. */
export function encodeDecision(decision: Decision): WireDecision {
  const { allowed, remaining, resetAfterMs, nextAfterMs } = decision;
  const waitMs = decision.allowed ? (decision.delayMs ?? 0) : decision.retryAfterMs;
  const wire = [allowed ? 1 : 0, remaining, resetAfterMs, nextAfterMs, waitMs] as const;
  const holds = encodeHolds(decision);
  return holds ? [...wire, holds] : wire;
}

function encodeHolds(decision: Decision): WireHolds | undefined {
  const { held, forgiven } = decision;
  const earliestRetryMs = decision.allowed ? undefined : decision.earliestRetryMs;
  if (held === undefined && forgiven === undefined && earliestRetryMs === undefined) return undefined;
  const grantEndsAt = grantEnd(decision);
  return {
    ...(held !== undefined && { held }),
    ...(forgiven !== undefined && { forgiven }),
    ...(earliestRetryMs !== undefined && { earliestRetryMs }),
    ...(grantEndsAt !== undefined && { grantEndsAt }),
  };
}

/** Rejects the reply of an object that was deployed from another version. The limiter treats it as a store failure. */
export function checkReplyVersion(reply: { readonly version: number } | undefined): void {
  const version: unknown = reply?.version;
  if (version === PROTOCOL_VERSION) return;
  throw new SluiceError(
    "store-unavailable",
    `The Worker speaks protocol ${PROTOCOL_VERSION}, but the Durable Object replied with ${show(version)}. Deploy both from one sluice version.`,
    { option: "version", expected: String(PROTOCOL_VERSION), received: version },
  );
}

/** Decodes the decision on a charge that the object decided at `now`. */
export function decodeChargeDecision(wire: WireDecision, { policy, cost, mode }: Charge, now: number): Decision {
  const decision = decodeDecision(wire, policy);
  if (mode !== "take" || !decision.allowed) return decision;
  return recordGrant(decision, wire[5]?.grantEndsAt ?? now + decision.resetAfterMs, cost);
}

/** Decodes a decision made under `policy`. */
function decodeDecision(
  [allowed, remaining, resetAfterMs, nextAfterMs, waitMs, holds]: WireDecision,
  { name: policy, limit, algorithm }: CompiledPolicy,
): Decision {
  if (holds) {
    const { grantEndsAt: _end, ...fields } = holds;
    const numbers = { policy, limit, remaining, resetAfterMs, nextAfterMs, ...fields };
    return allowed
      ? { allowed: true, ...(numbers as DecisionFields) }
      : { allowed: false, ...numbers, retryAfterMs: waitMs };
  }
  if (!allowed) {
    return { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs: waitMs };
  }
  if (!algorithm.queues) return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs };
  return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs, delayMs: waitMs as number };
}
