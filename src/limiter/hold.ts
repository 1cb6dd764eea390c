/** Holds of one or more parts: the handle that `hold` and `holdAll` return. */
import { isCost } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Allowed, Decision } from "../core/decision.ts";
import { optionError } from "../core/errors.ts";
import { type Hold, type HoldDecision, type HoldMethods, parseHoldMs, type RenewOptions, type Settlement } from "../core/hold.ts";
import { checkOptions, checkWhole } from "../core/options.ts";
import type { JointCharge } from "./limiter-part.ts";
import { merge } from "./merge.ts";
import { isConcurrency } from "./part-charges.ts";

/** One held charge, and where its hold is. */
interface HeldCharge {
  readonly charge: JointCharge;
  /** Index of the caller's charge that it belongs to, of `holdAll`. */
  readonly index: number;
  /** The decision that granted it. */
  readonly decision: Decision;
}

/** What `hold` and `holdAll` ask for. */
export interface HoldRequest {
  readonly id: string;
  readonly forMs: number;
  /** The charges, in modes hold, take and penalty. */
  readonly charges: readonly JointCharge[];
  /** For each charge, the index of the caller's charge. */
  readonly indexes: readonly number[];
}

/** Adds the hold to an allowed decision. `sentAt` is when the request was sent, in monotonic ms. */
export function withHold(decision: Decision, request: HoldRequest, sentAt: number): HoldDecision {
  if (!decision.allowed) return decision;
  const parts = decision.parts ?? [decision];
  const held: HeldCharge[] = [];
  for (const [i, charge] of request.charges.entries()) {
    if (charge.mode === "hold") held.push({ charge, index: request.indexes[i] as number, decision: parts[i] as Decision });
  }
  const hold = new HeldCharges(held, request, sentAt) as unknown as Hold;
  return Object.assign(decision as Allowed, { hold });
}

class HeldCharges implements HoldMethods {
  readonly id: string;
  readonly key: string;
  amount: number;
  private readonly held: readonly HeldCharge[];
  private readonly forMs: number;
  /** When the hold ends at the latest, by this process's clock. */
  private endsAt: number;
  private isSettled = false;

  constructor(held: readonly HeldCharge[], { id, forMs }: HoldRequest, sentAt: number) {
    this.id = id;
    this.held = held;
    this.key = held[0]?.charge.key ?? "";
    this.amount = held[0]?.charge.cost ?? 0;
    this.forMs = forMs;
    this.endsAt = sentAt + forMs;
  }

  async settle(actual?: number | readonly number[]): Promise<Settlement> {
    const costs = this.held.map(({ charge, index }) => {
      if (isConcurrency(charge.policy)) return 0;
      const cost = (typeof actual === "object" ? actual[index] : actual) ?? charge.cost;
      if (!isCost(cost)) throw optionError("invalid-cost", "actual", "a whole number from 0 to 2147483647", cost);
      return cost;
    });
    this.isSettled = true;
    const settled = await Promise.all(
      this.held.map(({ charge, decision }, i) => {
        const settlement: JointCharge = { ...charge, mode: "settle", cost: costs[i] as number, hold: settleHold(this.id) };
        return charge.port.settle(settlement, decision.source, this.endsAt);
      }),
    );
    return settlementOf(settled, this.held);
  }

  cancel(): Promise<Settlement> {
    return this.settle(0);
  }

  async renew(options: RenewOptions = {}): Promise<Decision> {
    checkOptions("the options of renew", options, ["forMs", "amount"]);
    const forMs = options.forMs === undefined ? this.forMs : parseHoldMs(options.forMs);
    const { amount } = options;
    if (amount !== undefined) checkWhole("amount", amount, 1, 2 ** 31 - 1);
    const sentAt = monotonicMs();
    const decisions = await Promise.all(
      this.held.map(({ charge, decision }) => {
        const cost = amount === undefined || isConcurrency(charge.policy) !== this.isConcurrencyAlone ? charge.cost : amount;
        const renewal: JointCharge = { ...charge, cost, hold: { id: this.id, forMs }, isNewHold: false };
        return charge.port.renew(renewal, decision.source, this.endsAt);
      }),
    );
    const decision = decisions.length === 1 ? (decisions[0] as Decision) : merge(decisions);
    if (decision.allowed) {
      this.endsAt = sentAt + forMs;
      if (amount !== undefined) this.amount = amount;
    }
    return decision;
  }

  /** Settles in full unless it was settled before. Assigned to `Symbol.asyncDispose`, which old runtimes don't have. */
  async dispose(): Promise<void> {
    if (!this.isSettled) await this.settle();
  }

  /** Whether only concurrency limits are held. Their amount is a weight, and may be renewed. */
  private get isConcurrencyAlone(): boolean {
    return this.held.every(({ charge }) => isConcurrency(charge.policy));
  }
}
