/** Holds of one or more parts: the handle that `hold` and `holdAll` return, and settlements. */

import { monotonicMs } from "../base/clock.ts";
import { optionError } from "../base/errors.ts";
import { checkOptions } from "../base/options.ts";
import type { PartCharge } from "../core/apply.ts";
import { isCost, MAX_COST } from "../core/charge.ts";
import type { Allowed, Decision, DecisionFields, DecisionSource } from "../core/decision.ts";
import { originOf } from "../core/store.ts";
import { merge } from "../joint/merge.ts";
import { renewCharge, reportSettled, settleCharge, settlementOf } from "./hold-acts.ts";
import {
  ASYNC_DISPOSE,
  type Hold,
  type HoldDecision,
  type HoldMethods,
  parseHoldMs,
  type RenewOptions,
  type Settlement,
} from "./hold-options.ts";
import { holdTerms } from "./hold-terms.ts";
import { addLease, type Leased, removeLease } from "./leases.ts";

/** What `hold` and `holdAll` ask for. */
export interface HoldRequest {
  readonly id: string;
  readonly forMs: number;
  /** The charges, in modes hold, take and penalty. */
  readonly charges: readonly PartCharge[];
  /** For each charge, the index of the caller's charge. Absent: all belong to the same one. */
  readonly indexes?: readonly number[];
}

/** What is held of one bucket, and where. */
interface HeldCharge {
  /** The charge, with the sum of all amounts. */
  charge: PartCharge;
  /** The amounts of `holdAll` that belong to this bucket, each with the index of the caller's charge. */
  readonly amounts: { readonly index: number; amount: number }[];
  /** Where the hold is, if not in the store. */
  readonly source: DecisionSource | undefined;
  /** When it ends at the latest, in monotonic ms: the store has started to count after it was sent. */
  endsAt: number;
  /** Whether it was released when its limiter was disposed of. */
  isReleased?: true;
}

/** Adds the hold to an allowed decision. `sentAt` is when the request was sent, in monotonic ms. */
export function withHold(decision: Decision, request: HoldRequest, sentAt: number): HoldDecision {
  if (!decision.allowed) return decision;
  return Object.assign(decision as Allowed, { hold: createHold(decision, request, sentAt) });
}

/** The hold of an allowed decision. Charges in mode hold that have another id belong to another hold. */
export function createHold(decision: Decision, request: HoldRequest, sentAt: number): Hold {
  const { charges, indexes, id, forMs } = request;
  const held: HeldCharge[] = [];
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i] as PartCharge;
    if (charge.mode !== "hold" || charge.hold?.id !== id) continue;
    const part = { index: indexes?.[i] ?? 0, amount: charge.cost };
    // Amounts of one bucket are one hold, as they have one id.
    const same = held.find((other) => isSameBucket(other.charge, charge));
    if (same) {
      same.amounts.push(part);
      same.charge = { ...same.charge, cost: same.charge.cost + charge.cost };
    } else {
      const { source } = decision.parts?.[i] ?? decision;
      held.push({ charge, amounts: [part], source, endsAt: sentAt + forMs });
    }
  }
  return new HeldCharges(held, id, forMs) as unknown as Hold;
}

/** Returns the actual cost, or throws. */
export function checkActual(actual: number): number {
  if (isCost(actual)) return actual;
  const expected = "a whole number from 0 to 2147483647, such as usage.total_tokens";
  throw optionError("invalid-cost", "actual", expected, actual);
}

/** Returns the amount of a hold, or throws. */
export function checkAmount(amount: number): number {
  if (isCost(amount) && amount > 0) return amount;
  throw optionError("invalid-cost", "amount", "a whole number from 1 to 2147483647", amount);
}

/** The settlement of what is held of one bucket. */
interface ChargeSettlement {
  readonly charge: PartCharge;
  /** Where the hold is, if not in the store. */
  readonly source?: DecisionSource | undefined;
  /** When the hold ends at the latest, in monotonic ms. */
  readonly endsAt: number;
}

/** Settles holds. */
export async function settleAll(settlements: readonly ChargeSettlement[]): Promise<Settlement> {
  const decisions = await Promise.all(
    settlements.map(async ({ charge, source, endsAt }) => {
      const decision = await settleCharge(charge, source, endsAt);
      if (decision) reportSettled(charge, decision);
      return decision;
    }),
  );
  const known = decisions.filter((decision) => decision !== undefined);
  const fields = known.length > 0 ? tightest(known) : unknownFields((settlements[0] as ChargeSettlement).charge);
  const settled = known.some(({ allowed }) => allowed);
  return known.length < decisions.length ? { ...fields, settled, pending: true } : { ...fields, settled };
}

/** A hold of one or more charges. */
class HeldCharges implements HoldMethods, Leased {
  readonly id: string;
  readonly key: string;
  amount: number;
  private readonly held: readonly HeldCharge[];
  readonly forMs: number;
  private isSettled = false;
  /** The renewals in flight. Never rejects. */
  private renewals: Promise<unknown> | undefined;

  constructor(held: readonly HeldCharge[], id: string, forMs: number) {
    const { charge, amounts } = held[0] as HeldCharge;
    this.id = id;
    this.key = charge.key;
    this.amount = (amounts[0] as HeldCharge["amounts"][number]).amount;
    this.held = held;
    this.forMs = forMs;
    for (const { charge } of held) if (charge.policy.kind === "concurrency") addLease(charge.context, this);
  }

  settle(actual?: number | readonly number[]): Promise<Settlement> {
    try {
      const [only] = this.held;
      // One hold in memory is the common case of a concurrency limit.
      if (only && this.held.length === 1 && only.charge.engine.syncStore) {
        const settlement = settlementOf(only.charge, this.id, costOf(only, actual));
        this.markSettled();
        const decision = settleCharge(settlement, undefined, only.endsAt) as Decision;
        reportSettled(settlement, decision);
        return Promise.resolve(Object.assign(fieldsOf(decision), { settled: decision.allowed }));
      }
      const settlements = this.settlementsOf(actual);
      this.markSettled();
      // A renewal that reaches the store after the settlement would hold the amount again. It may have another amount.
      return this.renewals ? this.renewals.then(() => settleAll(this.settlementsOf(actual))) : settleAll(settlements);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  private settlementsOf(actual: number | readonly number[] | undefined): ChargeSettlement[] {
    return this.held.map((held) => ({
      charge: settlementOf(held.charge, this.id, costOf(held, actual)),
      source: held.source,
      endsAt: held.endsAt,
    }));
  }

  hasEnded(now: number): boolean {
    return this.held.every(({ endsAt }) => endsAt <= now);
  }

  async releaseLeases(): Promise<void> {
    const leases = this.held.filter(({ charge }) => charge.policy.kind === "concurrency");
    for (const lease of leases) lease.isReleased = true;
    await this.renewals;
    await Promise.all(
      leases.map(({ charge, source, endsAt }) => settleCharge(settlementOf(charge, this.id, 0), source, endsAt)),
    );
  }

  private markSettled(): void {
    this.isSettled = true;
    for (const { charge } of this.held) {
      if (charge.policy.kind === "concurrency") removeLease(charge.context, this);
    }
  }

  cancel(): Promise<Settlement> {
    return this.settle(0);
  }

  async renew(options: RenewOptions = {}): Promise<Decision> {
    checkOptions("renew", options, ["forMs", "amount"]);
    const forMs = options.forMs === undefined ? this.forMs : parseHoldMs(options.forMs);
    const amount = options.amount === undefined ? undefined : checkAmount(options.amount);
    const open = this.held.filter(({ isReleased }) => !isReleased);
    // Renewing a hold that has been settled would create it again.
    if (this.isSettled || open.length === 0) {
      return { allowed: false, ...unknownFields((this.held[0] as HeldCharge).charge), retryAfterMs: null };
    }
    const renewal = this.renewParts(open, forMs, amount);
    const renewals = Promise.all([this.renewals, renewal.catch(() => {})]).then(() => {
      if (this.renewals === renewals) this.renewals = undefined;
    });
    this.renewals = renewals;
    return renewal;
  }

  private async renewParts(open: HeldCharge[], forMs: number, amount: number | undefined): Promise<Decision> {
    const sentAt = monotonicMs();
    // The amount is that of the rates. It is the weight of a concurrency limit only if there is nothing else.
    const hasRates = this.held.some(({ charge }) => charge.policy.kind !== "concurrency");
    const renewed = open.map((held) => {
      const isResized = amount !== undefined && !(hasRates && held.charge.policy.kind === "concurrency");
      const cost = isResized ? amount * held.amounts.length : held.charge.cost;
      return { held, isResized, before: held.charge, endedAt: held.endsAt, charge: this.renewalOf(held, cost, forMs) };
    });
    const decisions = await Promise.all(
      renewed.map(async ({ held, charge }) =>
        renewCharge(charge, held.source, held.endsAt, () => {
          // A renewal that waits for the store has not moved the end yet.
          held.endsAt = sentAt + forMs;
        }),
      ),
    );
    const decision = decisions.length === 1 ? (decisions[0] as Decision) : merge(decisions);
    const granted = renewed.filter((_, i) => decisions[i]?.allowed);
    if (!decision.allowed && amount !== undefined) {
      // All or nothing: the parts that were granted the new amount get their amount and their end back.
      await Promise.all(
        granted.map(async ({ held, before, endedAt }) => {
          const undo = this.renewalOf(held, before.cost, Math.max(1, Math.floor(endedAt - monotonicMs())));
          held.endsAt = endedAt;
          // Retried in the background if the store fails.
          await renewCharge(undo, held.source, endedAt, () => {}).catch(() => {});
        }),
      );
      return decision;
    }
    for (const { held, charge, isResized } of granted) {
      held.charge = charge;
      if (isResized) for (const part of held.amounts) part.amount = amount as number;
    }
    if (decision.allowed) this.amount = amount ?? this.amount;
    return decision;
  }

  private renewalOf({ charge }: HeldCharge, cost: number, forMs: number): PartCharge {
    return { ...charge, cost, hold: holdTerms(this.id, forMs), isNewHold: false };
  }

  async [ASYNC_DISPOSE](): Promise<void> {
    if (!this.isSettled) await this.settle();
  }
}

/** The actual cost of what is held of one bucket. */
function costOf({ charge, amounts }: HeldCharge, actual: number | readonly number[] | undefined): number {
  let cost = 0;
  for (const { index, amount } of amounts) {
    const own = Array.isArray(actual) ? listed(actual, index) : (actual as number | undefined);
    cost += own === undefined ? amount : checkActual(own);
  }
  return charge.policy.kind === "concurrency" ? 0 : Math.min(cost, MAX_COST);
}

/** The cost of one charge of `holdAll`. An empty list is no cost. */
function listed(actual: readonly number[], index: number): number | undefined {
  if (actual.length > 0) return actual[index];
  const expected = "a whole number from 0 to 2147483647, or, with holdAll, a list of them, one for each charge";
  throw optionError("invalid-cost", "actual", expected, actual);
}

/** Whether two charges are to the same bucket of the same service. */
function isSameBucket(a: PartCharge, b: PartCharge): boolean {
  return a.key === b.key && a.policy.id === b.policy.id && originOf(a.engine.store) === originOf(b.engine.store);
}

/** The fields of the part that is left with the least. */
function tightest(decisions: readonly Decision[]): DecisionFields {
  const least = decisions.reduce((a, b) => (b.remaining < a.remaining ? b : a));
  const forgiven = decisions.reduce((sum, decision) => sum + (decision.forgiven ?? 0), 0);
  return {
    ...fieldsOf(least),
    ...(forgiven > 0 && { forgiven }),
    ...(decisions.length > 1 && { parts: decisions }),
  };
}

/** The fields of a decision, without its verdict. */
function fieldsOf(decision: Decision): DecisionFields {
  const { policy, limit, remaining, resetAfterMs, nextAfterMs, held, forgiven, degraded } = decision;
  const fields: { -readonly [K in keyof DecisionFields]: DecisionFields[K] } = {
    policy,
    limit,
    remaining,
    resetAfterMs,
    nextAfterMs,
  };
  if (held !== undefined) fields.held = held;
  if (forgiven !== undefined) fields.forgiven = forgiven;
  if (degraded) fields.degraded = degraded;
  return fields;
}

/** The fields of a settlement that has not reached the store. */
function unknownFields({ policy }: PartCharge): DecisionFields {
  return { policy: policy.name, limit: policy.limit, remaining: 0, resetAfterMs: 0, nextAfterMs: 0, unknown: true };
}
