/**
 * When the grant of an allowed decision expires, in the store's clock. It is kept in a private field of the decision, so
 * that a refund can find out what is still in use of it, and is not part of the decision's public shape.
 */
import type { Decision } from "./decision.ts";
import { SluiceError } from "./errors.ts";

/** A base class that returns the object it is given, so that a subclass adds its private field to that object. */
const Given = function (this: unknown, decision: object): object {
  return decision;
} as unknown as new (
  decision: object,
) => object;

class Grant extends Given {
  readonly #endsAt: number;

  constructor(decision: object, endsAt: number) {
    super(decision);
    this.#endsAt = endsAt;
  }

  static endOf(decision: object): number | undefined {
    return #endsAt in decision ? decision.#endsAt : undefined;
  }
}

/** The end of a grant whose store does not tell the time: it is refunded as if no decision was given. */
const UNKNOWN = Number.NaN;

/** Records when a grant expires: at the time of the decision plus its `resetAfterMs`. Call it once per decision. */
export function recordGrant<D extends Decision>(decision: D, endsAt: number): D {
  new Grant(decision, endsAt);
  return decision;
}

/** Records that the time of a decision is not known, unless it is. */
export function recordUnknownGrant(decision: Decision): void {
  if (decision.allowed && Grant.endOf(decision) === undefined) recordGrant(decision, UNKNOWN);
}

/** Copies the time of a decision to another one that was made from it. */
export function copyGrant<D extends Decision>(from: Decision, to: D): D {
  const endsAt = Grant.endOf(from);
  return endsAt === undefined ? to : recordGrant(to, endsAt);
}

/** What a refund may give back. */
export interface Refundable {
  /** When the grant expires; `undefined` if that is not known. */
  readonly endsAt: number | undefined;
}

/** Nothing is known of the grant. */
const ANY: Refundable = { endsAt: undefined };

/**
 * What may be refunded of a decision: `undefined` if it took nothing from the store, because it was denied or made
 * without the store. A copy of a decision has lost the time it was made, and throws.
 */
export function refundable(decision: Decision | undefined): Refundable | undefined {
  if (decision === undefined) return ANY;
  if (!isGrant(decision) || decision.degraded) return undefined;
  const endsAt = Grant.endOf(decision);
  return Number.isNaN(endsAt) ? ANY : { endsAt };
}

/** Whether a decision that a caller gave back to us took something. Throws if it is not one of ours. */
export function isGrant(decision: Decision): boolean {
  if (typeof decision !== "object" || decision === null || typeof decision.allowed !== "boolean") {
    throw new SluiceError("invalid-option", "decision", "the decision that consume() returned", decision);
  }
  if (!decision.allowed || decision.degraded || Grant.endOf(decision) !== undefined) return decision.allowed;
  const expected = "the object that consume() returned: a copy does not know when it was made";
  throw new SluiceError("invalid-option", "decision", expected, decision);
}
