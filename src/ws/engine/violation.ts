/** Why a frame is rejected: a violation of a limit, or a frame that can't be charged. */
import type { Decision, Denied } from "../../core/decision.ts";
import { type CheckedCharge, limitingCharge } from "../../joint/charges.ts";
import type { LimitType } from "./replies.ts";

/** A limit that was exceeded. */
export interface Violation {
  readonly type: LimitType;
  readonly observed: number;
  readonly limit: number;
  readonly retryAfterMs?: number | null | undefined;
  readonly key: string;
  /** The limiting policy of a rate. Policies that share a key differ in it. */
  readonly policy?: string;
  /** False if the store failed or the cost can never fit: then it counts no strike and closes nothing. */
  readonly isClientFault: boolean;
  /** Whether the offending action can't be dropped, which leaves closing the connection as the only way to stop it. */
  readonly mustClose?: boolean;
}

/** A frame whose key or cost could not be determined. */
interface Uncharged {
  readonly type: "uncharged";
  readonly message: string;
}

/** Why a frame is rejected. */
export type RejectReason = Violation | Uncharged;

/** The reason for frames whose `limiter`, `key` or `cost` failed. */
export const UNCHARGED: RejectReason = {
  type: "uncharged",
  message: "The cost of this message could not be determined.",
};

/** The key of a connection's own bucket, as reported to `onLimitExceeded`. */
export function connectionKey(id: string): string {
  return `connection:${id}`;
}

/** The key of a connection's heartbeat bucket, as reported to `onLimitExceeded`. */
export function heartbeatKey(id: string): string {
  return `heartbeat:${id}`;
}

/** The violation of a connection that sent a frame of too many bytes. */
export function payloadViolation(id: string, observed: number, limit: number): Violation {
  return { type: "payload", observed, limit, key: connectionKey(id), isClientFault: true };
}

/** The violation of a connection with too many frames, or too many bytes, in flight. */
export function inFlightViolation(id: string, { observed, limit }: { observed: number; limit: number }): Violation {
  return { type: "inflight", observed, limit, key: connectionKey(id), isClientFault: true };
}

/** The violation of a denied charge. */
export function rateViolation(denied: Denied, key: string, observed: number): Violation {
  const { limit, retryAfterMs, policy, unavailable } = denied;
  const isClientFault = retryAfterMs !== null && !unavailable;
  return { type: "rate", observed, limit, retryAfterMs, key, policy, isClientFault };
}

/** The violation of a denied group of charges, with the key and cost of the limiting one. */
export function violationOf(decision: Decision, charges: readonly CheckedCharge[]): Violation | undefined {
  if (decision.allowed) return undefined;
  const { key, cost } = limitingCharge(charges, decision);
  return rateViolation(decision, key, cost);
}

/** The rejection of a frame that could not be checked, because its store failed. */
export function unavailableViolation(charges: readonly CheckedCharge[]): Violation {
  const { key, cost } = charges[0] as CheckedCharge;
  return { type: "rate", observed: cost, limit: 0, key, isClientFault: false };
}
