/**
 * What an allowed decision has granted, and when that expires by the store's clock. It is kept in private fields of the
 * decision, so that a refund gives back no more than that and nothing twice, and is not part of its public shape.
 */
import type { Decision } from "./decision.ts";
import { optionError } from "./errors.ts";

/** A base class that returns the object it is given, so that a subclass adds its private field to that object. */
const Given = function (this: unknown, decision: object): object {
  return decision;
} as unknown as new (
  decision: object,
) => object;

class Grant extends Given {
  readonly #endsAt: number;
  /** The cost that has not been refunded yet. */
  #left: number;

  constructor(decision: object, endsAt: number, cost: number) {
    super(decision);
    this.#endsAt = endsAt;
    this.#left = cost;
  }

  static endOf(decision: object): number | undefined {
    return #endsAt in decision ? decision.#endsAt : undefined;
  }

  static leftOf(decision: object): number {
    return #left in decision ? decision.#left : 0;
  }

  /** Takes up to `cost` of what is left, and returns how much that was. */
  static takeFrom(decision: object, cost: number): number {
    if (!(#left in decision)) return 0;
    const taken = Math.min(cost, decision.#left);
    decision.#left -= taken;
    return taken;
  }
}

/** Marks a grant from a store that doesn't report its clock: it is refunded as if no decision was given. */
const UNKNOWN = Number.NaN;

/**
 * Records what a decision has granted, and when that expires: at the time of the decision plus its `resetAfterMs`. Call
 * it once per decision.
 */
export function recordGrant<D extends Decision>(decision: D, endsAt: number, cost: number): D {
  new Grant(decision, endsAt, cost);
  return decision;
}

/** Records that the time of a grant is not known, unless it is. */
export function recordUnknownGrant(decision: Decision, cost: number): void {
  if (decision.allowed && Grant.endOf(decision) === undefined) recordGrant(decision, UNKNOWN, cost);
}

/** Copies the grant of a decision to another one that was made from it. */
export function copyGrant<D extends Decision>(from: Decision, to: D): D {
  const endsAt = Grant.endOf(from);
  return endsAt === undefined ? to : recordGrant(to, endsAt, Grant.leftOf(from));
}

/** What a refund may give back. */
export interface Refund {
  readonly cost: number;
  /** When the grant expires; `undefined` if that is not known. */
  readonly endsAt: number | undefined;
}

/**
 * What a refund of `cost` may give back of a decision, which is then refunded: `undefined` if nothing, because the
 * decision was denied, made without the store, or refunded before. A copy of a decision has lost its grant, and throws.
 */
export function refundOf(decision: Decision | undefined, cost: number): Refund | undefined {
  if (decision === undefined) return { cost, endsAt: undefined };
  if (!isGrant(decision) || decision.degraded) return undefined;
  const endsAt = Grant.endOf(decision);
  const given = Grant.takeFrom(decision, cost);
  if (given === 0) return undefined;
  return { cost: given, endsAt: Number.isNaN(endsAt) ? undefined : endsAt };
}

/** Whether a decision that a caller gave back to us took something. Throws if it is not one of ours. */
export function isGrant(decision: Decision): boolean {
  if (typeof decision !== "object" || decision === null || typeof decision.allowed !== "boolean") {
    throw optionError("invalid-option", "decision", "the decision that consume() returned", decision);
  }
  if (!decision.allowed || decision.degraded || Grant.endOf(decision) !== undefined) return decision.allowed;
  const expected = "the object that consume() returned: a copy does not know when it was made";
  throw optionError("invalid-option", "decision", expected, decision);
}
