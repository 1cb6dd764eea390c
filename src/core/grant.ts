/**
 * The cost that an allowed decision has granted, and when the grant expires by the store's clock. Both are private fields
 * of the decision and not a part of its public shape. They make sure that nothing is refunded twice or after its time.
 */

import { optionError, SluiceError } from "../base/errors.ts";
import { shared } from "../base/shared-state.ts";
import type { Decision } from "./decision.ts";

/** A base class that returns the object it is given, so that a subclass adds its private fields to that object. */
const Given = function (this: unknown, decision: object): object {
  return decision;
} as unknown as new (
  decision: object,
) => object;

function createGrantClass() {
  return class Grant extends Given {
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

    /** Takes up to `cost` of what is left, and returns the amount. */
    static takeFrom(decision: object, cost: number): number {
      if (!(#left in decision)) return 0;
      const taken = Math.min(cost, decision.#left);
      decision.#left -= taken;
      return taken;
    }
  };
}

/** One class for all copies of the package: private fields belong to the class that added them. */
const Grant = /* @__PURE__ */ shared("Grant", createGrantClass);

/** Marks a grant of a store that doesn't return its time. It is refunded as if no decision was passed. */
const UNKNOWN = Number.NaN;

/**
 * Records what a decision has granted, and when that expires: at the time of the decision plus its `resetAfterMs`. Call
 * it once per decision.
 */
export function recordGrant<D extends Decision>(decision: D, endsAt: number, cost: number): D {
  new Grant(decision, endsAt, cost);
  return decision;
}

/** Records a grant whose time is not known, unless it is recorded already. */
export function recordUnknownGrant(decision: Decision, cost: number): void {
  if (decision.allowed && Grant.endOf(decision) === undefined) recordGrant(decision, UNKNOWN, cost);
}

/** When the grant of a decision expires; `undefined` if it has none, or its time is not known. */
export function grantEnd(decision: Decision): number | undefined {
  const endsAt = Grant.endOf(decision);
  return Number.isNaN(endsAt) ? undefined : endsAt;
}

/** Whether a decision has a grant, whatever is left of it. One on a charge that takes nothing has none. */
export function hasGrant(decision: Decision): boolean {
  return Grant.endOf(decision) !== undefined;
}

/** Copies the grant of a decision to another decision that was made from it. */
export function copyGrant<D extends Decision>(from: Decision, to: D): D {
  const endsAt = Grant.endOf(from);
  return endsAt === undefined ? to : recordGrant(to, endsAt, Grant.leftOf(from));
}

/** The part of a grant that may be refunded. */
export interface Refund {
  readonly cost: number;
  /** When the grant expires; `undefined` if that is not known. */
  readonly endsAt: number | undefined;
}

/**
 * Marks up to `cost` of a decision as refunded, and returns it. `undefined`: there is nothing to refund, because the
 * decision was denied, made without the store, or refunded before. Throws for a copy of a decision, which has no grant.
 */
export function refundOf(decision: Decision | undefined, cost: number): Refund | undefined {
  if (decision === undefined) return { cost, endsAt: undefined };
  if (!isGrant(decision) || decision.degraded) return undefined;
  const endsAt = Grant.endOf(decision);
  const given = Grant.takeFrom(decision, cost);
  if (given === 0) return undefined;
  return { cost: given, endsAt: Number.isNaN(endsAt) ? undefined : endsAt };
}

/** Whether a decision that the caller passes in was allowed. Throws if it was not made by sluice. */
export function isGrant(decision: Decision): boolean {
  if (typeof decision !== "object" || decision === null || typeof decision.allowed !== "boolean") {
    throw optionError("invalid-option", "decision", "the object that consume() returned", decision);
  }
  if (!decision.allowed || decision.degraded || Grant.endOf(decision) !== undefined) return decision.allowed;
  const message = "decision must be the object that consume() returned. A copy of it can't be refunded.";
  throw new SluiceError("invalid-option", message, { option: "decision", expected: "no copy", received: decision });
}
