/** The charges of one request: applied, refunded and reported together. */

import { SluiceError } from "../../base/errors.ts";
import { isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { type Act, actIn, type ReportedRequest, TAKE } from "../../core/apply.ts";
import { checkCost, checkKey } from "../../core/charge.ts";
import type { Decision } from "../../core/decision.ts";
import { consumeAs } from "../../core/part-charges.ts";
import type { ResolvedPolicy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { holdNow } from "../../holds/hold.ts";
import { HOLD } from "../../holds/hold-acts.ts";
import { holdCharges } from "../../holds/hold-all.ts";
import type { HoldOptions } from "../../holds/hold-options.ts";
import type { Policies } from "../../http/headers/policies.ts";
import type { ResponseData } from "../../http/rejection.ts";
import type { ScreenedRequest } from "../../http/request-abuse.ts";
import type { RequestCharges } from "../../http/request-charges.ts";
import { applyCharges, type CheckedCharge, limitingCharge, refundCharges, refundTaken } from "../../joint/charges.ts";
import { checkDecision, policiesOf } from "./limiters.ts";
import type { LimiterLike, RequestDecision } from "./options.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** One of several charges of a request. */
export interface RequestCharge extends CheckedCharge {
  /** Whether the cost is held until the response ends. */
  readonly isHeld: boolean;
  /** Whether nothing is taken: a penalty that only denies while its key is blocked. Default: false. */
  readonly isPeeked?: boolean;
}

/** Finds the charges of a request. `undefined`: it is not counted. A response is sent without charging anything. */
export type ChargesFor<Args extends HandlerArgs> = (
  args: Args,
  screened?: ScreenedRequest,
) => MaybePromise<RequestCharges | ResponseData | undefined>;

/** One charge, to any limiter. */
export class SingleCharge implements RequestCharges {
  readonly limiter: LimiterLike;
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

  apply(request?: ReportedRequest): MaybePromise<Decision> {
    const { limiter, key, cost, held } = this;
    if (held && cost > 0) return holdOn(limiter, key, cost, held, actIn(request, HOLD));
    const decision = consumeAs(limiter, key, cost, actIn(request, TAKE));
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

  /** The same with further charges, all or nothing. The limiter must be one of sluice. */
  joined(added: readonly RequestCharge[], lists: PolicyLists): JointCharges {
    const { limiter, key, cost, held } = this;
    // As the limiter itself does.
    checkKey(key);
    checkCost(cost);
    const own = { limiter: limiter as RateLimiter, key, cost, isHeld: held !== undefined && cost > 0 };
    return JointCharges.of([own, ...added], lists, held ?? {});
  }

  costAt(): number {
    return this.cost;
  }
}

/** Holds a cost. A limiter that is not one of sluice has a method of its own. */
function holdOn(
  limiter: LimiterLike & {
    holdAs?(key: string, amount: number, options: HoldOptions, act: Act): MaybePromise<Decision>;
  },
  key: string,
  cost: number,
  options: HoldOptions,
  act: Act,
): MaybePromise<Decision> {
  if ("parts" in limiter || "rejectHolds" in limiter) {
    return holdNow(limiter as unknown as RateLimiter, key, cost, options, act);
  }
  if (limiter.holdAs) return limiter.holdAs(key, cost, options, act);
  if (typeof limiter.holdSync === "function") return limiter.holdSync(key, cost, options);
  if (typeof limiter.hold === "function") return limiter.hold(key, cost, options);
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

  /** Lists the policies of charges that are found for a request. */
  static of(charges: readonly RequestCharge[], lists: PolicyLists, hold: HoldOptions): JointCharges {
    return new JointCharges(charges, lists.of(charges), hold);
  }

  /** The same with further charges, all or nothing. */
  joined(added: readonly RequestCharge[], lists: PolicyLists): JointCharges {
    return JointCharges.of([...this.charges, ...added], lists, this.hold);
  }

  get isFree(): boolean {
    return this.charges.every(({ cost }) => cost === 0);
  }

  apply(request?: ReportedRequest): MaybePromise<Decision> {
    const { charges, hold } = this;
    if (charges.some(({ isHeld }) => isHeld)) return holdCharges(charges, hold, actIn(request, HOLD));
    return applyCharges(charges, actIn(request, TAKE));
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

/** Combinations of limiters that are remembered: plans and optional limits produce a few of them. */
const MAX_LISTS = 32;

/** Lists the policies of charges. A list is reused, since header fields are cached by the identity of the list. */
export class PolicyLists {
  private readonly known: { limiters: readonly RateLimiter[]; policies: readonly ResolvedPolicy[] }[] = [];

  of(charges: readonly CheckedCharge[]): readonly ResolvedPolicy[] {
    const found = this.known.find(
      ({ limiters }) =>
        limiters.length === charges.length && limiters.every((limiter, i) => limiter === charges[i]?.limiter),
    );
    if (found) return found.policies;
    const limiters = charges.map(({ limiter }) => limiter);
    const policies = limiters.flatMap((limiter) => limiter.getPolicies?.() ?? [limiter.getPolicy()]);
    if (this.known.length < MAX_LISTS) this.known.push({ limiters, policies });
    return policies;
  }
}
