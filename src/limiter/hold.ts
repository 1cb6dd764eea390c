/** Holds of one or more parts: the handle that `hold` and `holdAll` return, and settlements. */
import { isCost } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Allowed, Decision, DecisionFields, DecisionSource } from "../core/decision.ts";
import { optionError } from "../core/errors.ts";
import {
  type Hold,
  type HoldDecision,
  type HoldMethods,
  parseHoldMs,
  type RenewOptions,
  type Settlement,
} from "../core/hold.ts";
import { checkOptions } from "../core/options.ts";
import { emit } from "../resilience/events.ts";
import { addLease, type Leased, removeLease } from "./leases.ts";
import type { JointCharge } from "./limiter-part.ts";
import { merge } from "./merge.ts";
import { isConcurrency } from "./part-charges.ts";

/** What `hold` and `holdAll` ask for. */
export interface HoldRequest {
  readonly id: string;
  readonly forMs: number;
  /** The charges, in modes hold, take and penalty. */
  readonly charges: readonly JointCharge[];
  /** For each charge, the index of the caller's charge. Absent: all belong to the same one. */
  readonly indexes?: readonly number[];
}

/** One held charge, and where its hold is. */
interface HeldCharge {
  readonly charge: JointCharge;
  /** Index of the caller's charge that it belongs to, of `holdAll`. */
  readonly index: number;
  /** Where the hold is, if not in the store. */
  readonly source: DecisionSource | undefined;
}

/** Adds the hold to an allowed decision. `sentAt` is when the request was sent, in monotonic ms. */
export function withHold(decision: Decision, request: HoldRequest, sentAt: number): HoldDecision {
  if (!decision.allowed) return decision;
  const { charges, indexes, id, forMs } = request;
  const held: HeldCharge[] = [];
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i] as JointCharge;
    if (charge.mode !== "hold") continue;
    held.push({ charge, index: indexes?.[i] ?? 0, source: (decision.parts?.[i] ?? decision).source });
  }
  const hold = new HeldCharges(held, id, forMs, sentAt + forMs) as unknown as Hold;
  return Object.assign(decision as Allowed, { hold });
}

/** Returns the actual cost, or throws. */
export function checkActual(actual: number): number {
  if (isCost(actual)) return actual;
  throw optionError("invalid-cost", "actual", "a whole number from 0 to 2147483647", actual);
}

/** Returns the amount of a hold, or throws. */
export function checkAmount(amount: number): number {
  if (isCost(amount) && amount > 0) return amount;
  throw optionError("invalid-cost", "amount", "a whole number from 1 to 2147483647", amount);
}

/** Settles holds. `endsAt` is when they end at the latest, in monotonic ms. */
export async function settleAll(
  settlements: readonly { readonly charge: JointCharge; readonly source?: DecisionSource | undefined }[],
  endsAt: number,
): Promise<Settlement> {
  const decisions = await Promise.all(
    settlements.map(async ({ charge, source }) =>
      reportForgiven(charge, await charge.port.settle(charge, source, endsAt)),
    ),
  );
  const known = decisions.filter((decision) => decision !== undefined);
  const fields = known.length > 0 ? tightest(known) : unknownFields((settlements[0] as { charge: JointCharge }).charge);
  const settled = known.some(({ allowed }) => allowed);
  return known.length < decisions.length ? { ...fields, settled, pending: true } : { ...fields, settled };
}

function reportForgiven(charge: JointCharge, decision: Decision | undefined): Decision | undefined {
  const cost = decision?.forgiven;
  if (cost) emit(charge.failurePolicy.onEvent, { type: "cost-forgiven", policy: charge.policy.name, cost });
  return decision;
}

/** `Symbol.asyncDispose`, or what compilers use where the runtime does not have it. */
const ASYNC_DISPOSE: symbol = (Symbol as { asyncDispose?: symbol }).asyncDispose ?? Symbol.for("Symbol.asyncDispose");

/** A hold of one or more charges. */
class HeldCharges implements HoldMethods, Leased {
  readonly id: string;
  readonly key: string;
  amount: number;
  private held: readonly HeldCharge[];
  readonly forMs: number;
  /** When it ends at the latest, in monotonic ms: the store has started to count after it was sent. */
  private endsAt: number;
  private isSettled = false;

  constructor(held: readonly HeldCharge[], id: string, forMs: number, endsAt: number) {
    const { charge } = held[0] as HeldCharge;
    this.id = id;
    this.key = charge.key;
    this.amount = charge.cost;
    this.held = held;
    this.forMs = forMs;
    this.endsAt = endsAt;
    for (const { charge } of held) if (isConcurrency(charge.policy)) addLease(charge.failurePolicy, this);
  }

  settle(actual?: number | readonly number[]): Promise<Settlement> {
    try {
      const [only] = this.held;
      // One hold in memory is the common case of a concurrency limit.
      if (only && this.held.length === 1 && only.charge.port.syncStore) {
        const settlement = settlementOf(only.charge, this.id, this.costOf(only, actual));
        this.markSettled();
        const decision = settlement.port.settle(settlement, undefined, this.endsAt) as Decision;
        reportForgiven(settlement, decision);
        return Promise.resolve(Object.assign(fieldsOf(decision), { settled: decision.allowed }));
      }
      return this.settleParts(actual);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  private settleParts(actual: number | readonly number[] | undefined): Promise<Settlement> {
    const settlements = this.held.map((held) => ({
      charge: settlementOf(held.charge, this.id, this.costOf(held, actual)),
      source: held.source,
    }));
    this.markSettled();
    return settleAll(settlements, this.endsAt);
  }

  async releaseLeases(): Promise<void> {
    const leases = this.held.filter(({ charge }) => isConcurrency(charge.policy));
    await Promise.all(
      leases.map(({ charge, source }) => charge.port.settle(settlementOf(charge, this.id, 0), source, this.endsAt)),
    );
  }

  private markSettled(): void {
    this.isSettled = true;
    for (const { charge } of this.held) {
      if (isConcurrency(charge.policy)) removeLease(charge.failurePolicy, this);
    }
  }

  /** The actual cost of a held charge. */
  private costOf({ charge, index }: HeldCharge, actual: number | readonly number[] | undefined): number {
    if (isConcurrency(charge.policy)) return 0;
    return checkActual((typeof actual === "object" ? actual[index] : actual) ?? charge.cost);
  }

  cancel(): Promise<Settlement> {
    return this.settle(0);
  }

  async renew(options: RenewOptions = {}): Promise<Decision> {
    checkOptions("renew", options, ["forMs", "amount"]);
    const forMs = options.forMs === undefined ? this.forMs : parseHoldMs(options.forMs);
    const amount = options.amount === undefined ? undefined : checkAmount(options.amount);
    const sentAt = monotonicMs();
    // The amount is that of the rates. It is the weight of a concurrency limit only if there is nothing else.
    const hasRates = this.held.some(({ charge }) => !isConcurrency(charge.policy));
    const renewed = this.held.map((held) => {
      const { charge } = held;
      const cost = amount === undefined || (hasRates && isConcurrency(charge.policy)) ? charge.cost : amount;
      return { ...held, charge: { ...charge, cost, hold: { id: this.id, forMs }, isNewHold: false } };
    });
    const decisions = await Promise.all(
      renewed.map(({ charge, source }) => charge.port.renew(charge, source, this.endsAt)),
    );
    const decision = decisions.length === 1 ? (decisions[0] as Decision) : merge(decisions);
    if (decision.allowed) {
      this.held = renewed;
      this.endsAt = sentAt + forMs;
      this.amount = amount ?? this.amount;
    }
    return decision;
  }

  async [ASYNC_DISPOSE](): Promise<void> {
    if (!this.isSettled) await this.settle();
  }
}

/** The charge that settles a hold. */
export function settlementOf({ port, policy, failurePolicy, key }: JointCharge, id: string, cost: number): JointCharge {
  return { port, policy, failurePolicy, key, cost, mode: "settle", hold: { id, forMs: 0 } };
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
function unknownFields({ policy }: JointCharge): DecisionFields {
  return { policy: policy.name, limit: policy.limit, remaining: 0, resetAfterMs: 0, nextAfterMs: 0, unknown: true };
}
