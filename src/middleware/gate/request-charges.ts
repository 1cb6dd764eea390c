/** The charges of one request: applied, refunded and reported together. */
import type { Decision } from "../../core/decision.ts";
import { SluiceError } from "../../core/errors.ts";
import type { HoldOptions } from "../../core/hold.ts";
import { isPromise, type MaybePromise } from "../../core/maybe-promise.ts";
import type { Policies } from "../../http/headers/policies.ts";
import type { ResponseData } from "../../http/rejection.ts";
import type { RequestCharges } from "../../http/request-charges.ts";
import { applyCharges, type CheckedCharge, limitingCharge, refundCharges, refundTaken } from "../../limiter/charges.ts";
import { holdCharges } from "../../limiter/hold-all.ts";
import { checkDecision, policiesOf } from "./limiters.ts";
import type { LimiterLike, RequestDecision } from "./options.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** One of several charges of a request. */
export interface RequestCharge extends CheckedCharge {
  /** Whether the cost is held until the response ends. */
  readonly isHeld: boolean;
}

/** Finds the charges of a request. `undefined`: it is not counted. A response is sent without charging anything. */
export type ChargesFor<Args extends HandlerArgs> = (
  args: Args,
) => MaybePromise<RequestCharges | ResponseData | undefined>;

/** One charge, to any limiter. */
export class SingleCharge implements RequestCharges {
  private readonly limiter: LimiterLike;
  private readonly key: string;
  private readonly cost: number;
  private readonly held: HoldOptions | undefined;

  /** `held`: the cost is held with these options, and not taken. */
  constructor(limiter: LimiterLike, key: string, cost: number, held?: HoldOptions) {
    this.limiter = limiter;
    this.key = key;
    this.cost = cost;
    this.held = held;
  }

  get policies(): Policies | undefined {
    return policiesOf(this.limiter);
  }

  get isFree(): boolean {
    return this.cost === 0;
  }

  apply(): MaybePromise<Decision> {
    const { limiter, key, cost, held } = this;
    if (held && cost > 0) return limiter.holdSync?.(key, cost, held) ?? holdOf(limiter)(key, cost, held);
    const decision = limiter.consumeSync ? limiter.consumeSync(key, cost) : limiter.consume(key, cost);
    return isPromise(decision) ? decision.then(checkDecision) : checkDecision(decision);
  }

  async refund(decision: Decision): Promise<void> {
    const { limiter, key, cost } = this;
    if (decision.degraded) return;
    try {
      await limiter.refund?.(key, cost, decision);
    } catch (error) {
      // A limiter that wraps another one may have copied the decision, which loses its grant.
      if (!(error instanceof SluiceError && error.option === "decision")) throw error;
      await limiter.refund?.(key, cost);
    }
  }

  keyOf(): string {
    return this.key;
  }

  costOf(): number {
    return this.cost;
  }

  keysByPolicy(): undefined {
    return undefined;
  }

  costAt(): number {
    return this.cost;
  }
}

/** `hold` of a limiter. Throws if it has none. */
function holdOf(limiter: LimiterLike): NonNullable<LimiterLike["hold"]> {
  if (typeof limiter.hold === "function") return limiter.hold.bind(limiter);
  const message = "hold requires a limiter with hold(key, amount, options), which this limiter does not have.";
  throw new SluiceError("invalid-limiter", message, { option: "hold", expected: "hold(key, amount, options)" });
}

/** Several charges with keys of their own, to limiters of sluice: all or nothing. */
export class JointCharges implements RequestCharges {
  readonly policies: Policies;
  private readonly charges: readonly RequestCharge[];
  private readonly hold: HoldOptions;

  /** `policies` lists the policies of all charges, in their order. */
  constructor(charges: readonly RequestCharge[], policies: Policies, hold: HoldOptions) {
    this.charges = charges;
    this.policies = policies;
    this.hold = hold;
  }

  get isFree(): boolean {
    return this.charges.every(({ cost }) => cost === 0);
  }

  apply(): MaybePromise<Decision> {
    const { charges, hold } = this;
    return charges.some(({ isHeld }) => isHeld) ? holdCharges(charges, hold) : applyCharges(charges);
  }

  async refund(decision: Decision): Promise<void> {
    const { hold } = decision as RequestDecision;
    if (!hold) return refundCharges(this.charges, decision);
    await Promise.all([hold.cancel(), refundTaken(this.charges, decision)]);
  }

  keyOf(decision: Decision): string {
    return limitingCharge(this.charges, decision).key;
  }

  costOf(decision: Decision): number {
    return limitingCharge(this.charges, decision).cost;
  }

  keysByPolicy(): readonly string[] {
    return this.chargesByPolicy().map(({ key }) => key);
  }

  costAt(index: number): number {
    return this.chargesByPolicy()[index]?.cost ?? 0;
  }

  /** The charge of each policy: that of a combination is repeated. */
  private chargesByPolicy(): readonly CheckedCharge[] {
    return this.charges.flatMap((charge) => new Array(policyCount(charge.limiter)).fill(charge) as CheckedCharge[]);
  }
}

/** The number of policies that a limiter charges. */
export function policyCount(limiter: CheckedCharge["limiter"]): number {
  return limiter.getPolicies?.().length ?? 1;
}
