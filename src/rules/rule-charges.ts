/** The charges of one request that rules have found: applied, settled, refunded and reported together. */

import { monotonicMs } from "../base/clock.ts";
import { optionError } from "../base/errors.ts";
import { isPromise, type MaybePromise } from "../base/maybe-promise.ts";
import { actIn, type Engine, type PartCharge, type ReportedRequest, TAKE } from "../core/apply.ts";
import { isCost } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import type { Policy, ResolvedPolicy } from "../core/policy.ts";
import { HOLD } from "../holds/hold-acts.ts";
import { ASYNC_DISPOSE, type Hold, type HoldMethods, type Settlement } from "../holds/hold-options.ts";
import type { CountedDecision, RequestCharges, RuleOutcome } from "../http/request-charges.ts";
import { isRefundDue, type RequestEnding } from "../http/request-ending.ts";
import { applyGroups, type GroupDecisions } from "../joint/charge-groups.ts";
import { refundJointly } from "../joint/jointly.ts";
import { merge } from "../joint/merge.ts";
import {
  type ActiveCharge,
  type Group,
  groupOf,
  type HoldIds,
  holdIdsOf,
  holdsOf,
  isPenalty,
  limitingOf,
  NO_HOLDS,
  notLimited,
  type OpenHold,
  routeOf,
  specsOf,
} from "./charge-group.ts";
import type { ParsedRule } from "./parsed-rules.ts";

/** What is held for a request. `settle` also accepts the actual amount of each held fact: `{ tokens: 812 }`. */
export type RuleHold = Hold & { settle(actual: Readonly<Record<string, number>>): Promise<Settlement> };

const NONE: readonly never[] = [];

/** The charges of one request. */
export class RuleCharges implements RequestCharges, RuleOutcome {
  readonly policies: readonly ResolvedPolicy[];
  /** The rule of the path as it was sent. */
  readonly firstRule: string;
  counted: readonly CountedDecision[] = NONE;
  private readonly engine: Engine;
  private readonly enforced: Group;
  private readonly countedGroups: readonly Group[];
  private readonly ids: HoldIds;
  private openHolds: readonly OpenHold[] = NONE;
  private renewals: Parameters<RuleOutcome["begin"]>[1];
  private actual: Readonly<Record<string, number>> | undefined;
  private isReported: boolean = false;
  /** How the request ended; `undefined` while it is open. */
  private ending: RequestEnding | undefined;
  /** The amount that replaces the estimate of every fact. */
  private renewedAmount: number | undefined;

  /** `policies` are those of the enforced charges, in order. */
  constructor(engine: Engine, firstRule: string, active: readonly ActiveCharge[], policies: readonly ResolvedPolicy[]) {
    this.engine = engine;
    this.firstRule = firstRule;
    this.policies = policies;
    this.ids = holdIdsOf(active);
    // Most rules have nothing else.
    const isEnforced = policies.length === active.length;
    this.enforced = isEnforced ? groupOf("enforced", active, this.ids) : this.groupFrom("enforced", active);
    this.countedGroups = isEnforced
      ? NONE
      : [this.groupFrom("shadow", active), this.groupFrom("flag", active)].filter(({ active }) => active.length > 0);
  }

  /** The charges themselves: one object per request. */
  get rules(): RuleOutcome {
    return this;
  }

  get isFree(): boolean {
    return this.groups().every(({ active }) => active.every(({ charge, amount }) => amount === 0 || isPenalty(charge)));
  }

  /** Whether something is held, so that the request has to be finished. */
  get isHeld(): boolean {
    return this.ids !== NO_HOLDS;
  }

  /** Whether the rules hold something for some callers. */
  get mayHold(): boolean {
    return this.someRule(
      (rule) => rule.holdMs !== undefined || specsOf(rule).some(({ policy }) => isConcurrency(policy)),
    );
  }

  /** The rules that were found. */
  get foundRules(): readonly ParsedRule[] {
    return [...new Set(this.groups().flatMap(({ active }) => active.map(({ rule }) => rule)))];
  }

  get isEnforced(): boolean {
    return this.enforced.active.some(({ charge }) => !isPenalty(charge));
  }

  get awaitsCost(): boolean {
    return this.openHolds.some(({ isLease }) => !isLease);
  }

  get isOpen(): boolean {
    return this.openHolds.length > 0;
  }

  apply(request?: ReportedRequest): MaybePromise<Decision> {
    const { enforced, countedGroups, engine } = this;
    const sentAt = this.ids === NO_HOLDS ? 0 : monotonicMs();
    const counted = countedGroups.length > 0 ? countedGroups.map(({ charges }) => charges) : NONE;
    const decided = applyGroups(
      engine,
      { enforced: enforced.charges, counted },
      actIn(request, this.ids === NO_HOLDS ? TAKE : HOLD),
    );
    return isPromise(decided)
      ? decided.then((decisions) => this.applied(decisions, sentAt))
      : this.applied(decided, sentAt);
  }

  async refund(): Promise<void> {
    await Promise.all([this.refundTaken(() => true), this.settleHolds(() => 0)]);
  }

  keyOf(decision: Decision): string {
    return limitingOf(this.enforced, decision)?.key ?? "";
  }

  costOf(decision: Decision): number {
    return limitingOf(this.enforced, decision)?.amount ?? 0;
  }

  keysByPolicy(): readonly string[] {
    return this.enforced.active.map(({ key }) => key);
  }

  costAt(index: number): number {
    return this.enforced.active[index]?.amount ?? 0;
  }

  ruleOf(decision: Decision): string {
    return limitingOf(this.enforced, decision)?.rule.name ?? this.firstRule;
  }

  describe(decision: Decision): { readonly per: string | undefined; readonly route: string | undefined } {
    const { charge, rule } = limitingOf(this.enforced, decision) ?? this.countedGroups[0]?.active[0] ?? {};
    return { per: charge?.limit.per, route: rule && routeOf(rule) };
  }

  endsInChallenge(decision: Decision): boolean {
    const { parts = [decision] } = decision;
    let isChallenged = false;
    for (const [i, part] of parts.entries()) {
      if (part.allowed) continue;
      const { limit } = (this.enforced.active[i] as ActiveCharge).charge;
      // A cost that can never fit, and a store that can't decide, are not solved by a person.
      if (limit.action !== "challenge" || part.retryAfterMs === null || part.unavailable) return false;
      isChallenged = true;
    }
    return isChallenged;
  }

  /** Records the actual amounts that a caller gives. Without any, the estimates would be charged in silence. */
  private settleGiven(actual: Readonly<Record<string, number>>): void {
    if (typeof actual !== "object" || actual === null || Array.isArray(actual) || Object.keys(actual).length === 0) {
      throw optionError("invalid-cost", "actual", "the amount of each held fact, such as { tokens: 812 }", actual);
    }
    this.settle(actual);
  }

  /** Records the actual amounts of held facts. Throws for a fact that is not held. */
  private settle(actual: Readonly<Record<string, number>>): void {
    const held = this.heldFacts();
    for (const [fact, amount] of Object.entries(actual)) {
      if (!held.includes(fact) && this.someRule(() => true)) {
        const expected = `amounts of held facts, which are ${held.join(", ") || "none here"}`;
        throw optionError("invalid-option", "actual", expected, fact);
      }
      if (!isCost(amount)) {
        throw optionError("invalid-cost", `actual.${fact}`, "a whole number from 0 to 2147483647", amount);
      }
    }
    this.actual = { ...this.actual, ...actual };
  }

  begin(decision: Decision, open: Parameters<RuleOutcome["begin"]>[1]): ReturnType<RuleOutcome["begin"]> {
    const holds = this.openHolds.map(({ hold }) => hold);
    // Also if nothing is held: a handler does not know which limits apply to a caller.
    if (holds.length > 0 || this.someRule(({ holdMs }) => holdMs !== undefined)) {
      Object.assign(decision, { settle: (actual: Readonly<Record<string, number>>) => this.settleGiven(actual) });
    }
    // A middleware in shadow mode continues requests that were denied. What other groups hold is settled all the same.
    if (holds.length === 0 && !(decision.allowed && this.mayRefund())) return undefined;
    this.renewals = open;
    for (const hold of holds) open?.add(hold);
    return async (ending) => {
      if (this.ending !== undefined) return;
      this.ending = ending;
      this.stopRenewing();
      await Promise.all([
        holds.length > 0 ? this.settleActual() : undefined,
        this.refundTaken(({ refundIf }) => isRefundDue(refundIf, ending, this.isReported)),
      ]);
    };
  }

  async endLeases(): Promise<void> {
    const leases = this.openHolds.filter(({ isLease }) => isLease);
    for (const { hold } of leases) this.renewals?.delete(hold);
    await Promise.all(leases.map(({ hold }) => hold.cancel()));
  }

  stopRenewing(): void {
    for (const { hold } of this.openHolds) this.renewals?.delete(hold);
  }

  get refunding(): RuleOutcome["refunding"] {
    for (const { name, refundIf } of this.foundRules) {
      if (refundIf === "succeeded" || refundIf === "reported") return { rule: name, refundIf };
    }
    return undefined;
  }

  async succeeded(): Promise<void> {
    const { ending, isReported } = this;
    this.isReported = true;
    if (ending === undefined || isReported) return;
    await this.refundTaken(({ refundIf }) => isRefundDue(refundIf, ending, true) && refundIf !== ending);
  }

  /** All holds of the request as one, for callers without a server. There may be none. */
  holdOf(decision: Decision): RuleHold {
    const holds = this.openHolds.map(({ hold }) => hold);
    const first = (this.openHolds.find(({ isLease }) => !isLease) ?? this.openHolds[0])?.hold;
    const settle = async (actual?: number | readonly number[] | Readonly<Record<string, number>>) => {
      if (typeof actual === "object") this.settleGiven(actual as Readonly<Record<string, number>>);
      else if (actual !== undefined) {
        this.settle(Object.fromEntries(this.heldFacts().map((fact) => [fact, actual])));
      }
      return first ? this.settleActual() : { ...unheld, settled: false };
    };
    const { policy, limit, remaining, resetAfterMs, nextAfterMs } = decision;
    const unheld = { policy, limit, remaining, resetAfterMs, nextAfterMs };
    const hold: HoldMethods = {
      id: first?.id ?? "",
      key: this.keyOf(decision),
      amount: first?.amount ?? 0,
      forMs: first ? Math.min(...holds.map(({ forMs }) => forMs)) : 0,
      settle,
      cancel: () => settle(0),
      renew: async (options) => {
        if (!first) return { allowed: true, ...unheld };
        // The amount is that of facts. A lease that ends with them is one request, whatever they amount to.
        const { amount: _, ...end } = options ?? {};
        const decisions = await Promise.all(
          this.openHolds.map(({ hold, isLease }) => hold.renew(isLease && hold !== first ? end : options)),
        );
        const decision = decisions.length === 1 ? (decisions[0] as Decision) : merge(decisions);
        if (decision.allowed) this.renewedAmount = options?.amount ?? this.renewedAmount;
        return decision;
      },
    };
    return Object.assign(hold, {
      [ASYNC_DISPOSE]: async () => void (await this.settleActual()),
    }) as unknown as RuleHold;
  }

  /** Whether charges are refunded if the request ends in a certain way. */
  private mayRefund(): boolean {
    return this.someRule(({ refundIf }) => refundIf !== undefined);
  }

  private groups(): readonly Group[] {
    return [this.enforced, ...this.countedGroups];
  }

  private groupFrom(mode: Group["mode"], active: readonly ActiveCharge[]): Group {
    const own = active.filter(({ charge }) => charge.group === mode);
    return groupOf(mode, own, this.ids);
  }

  /** Records the decisions. Returns that on the enforced charges. */
  private applied(decisions: GroupDecisions, sentAt: number): Decision {
    const decided = decisions.enforced;
    // While a key is not blocked, the numbers of its penalty mean nothing.
    const decision = decided && (this.isEnforced || !decided.allowed) ? decided : notLimited();
    this.enforced.decision = decision;
    const described = decision as { rule?: string; limited?: true };
    described.rule = this.ruleOf(decision);
    if (this.countedGroups.length > 0) {
      this.recordCounted(decisions.counted);
      if (this.counted.some(({ mode, decision }) => mode === "flag" && !decision.allowed)) described.limited = true;
    }
    if (this.ids !== NO_HOLDS) {
      this.openHolds = this.groups().flatMap((group) => holdsOf(group, this.ids, sentAt));
      // A denied request does not run, so nothing ends its leases later.
      if (!decision.allowed) void this.settleHolds(() => 0).catch(() => {});
    }
    return decision;
  }

  private recordCounted(decisions: readonly Decision[]): void {
    this.counted = decisions.map((decision, i) => {
      const group = this.countedGroups[i] as Group;
      group.decision = decision;
      const { rule, key, amount, charge } = limitingOf(group, decision) as ActiveCharge;
      const { per } = charge.limit;
      const mode = group.mode as "shadow" | "flag";
      return { mode, rule: rule.name, key, cost: amount, per, route: routeOf(rule), decision };
    });
  }

  /** The facts that the rules hold, each once; also those of limits that don't apply to the caller. */
  private heldFacts(): string[] {
    const rules = this.groups().flatMap(({ active }) => active.map(({ rule }) => rule));
    const held = rules.filter(({ holdMs }) => holdMs !== undefined);
    return [...new Set(held.flatMap(specsOf).flatMap(({ of }) => of ?? []))];
  }

  private someRule(test: (rule: ParsedRule) => boolean): boolean {
    const hasRule = ({ active }: Group): boolean => active.some(({ rule }) => test(rule));
    return hasRule(this.enforced) || this.countedGroups.some(hasRule);
  }

  /** Settles what is held: facts at their actual amount, or the estimate. */
  private settleActual(): Promise<Settlement> {
    const { actual = {}, renewedAmount } = this;
    return this.settleHolds(({ charge, amount }) => actual[charge.of as string] ?? renewedAmount ?? amount);
  }

  private async settleHolds(actualOf: (active: ActiveCharge) => number): Promise<Settlement> {
    const settlements = await Promise.all(
      this.openHolds.map(({ hold, group, isLease }) =>
        isLease ? hold.cancel() : hold.settle(group.active.map(actualOf)),
      ),
    );
    const isPending = settlements.some(({ pending }) => pending);
    return { ...(settlements[0] as Settlement), ...(isPending ? { pending: true } : {}) };
  }

  private async refundTaken(isDue: (rule: ParsedRule) => boolean): Promise<void> {
    for (const { active, charges, decision } of this.groups()) {
      if (!decision?.allowed) continue;
      const parts = decision.parts ?? [decision];
      const due = charges.flatMap((charge, i) =>
        charge.mode === "take" && isDue((active[i] as ActiveCharge).rule) ? [i] : [],
      );
      if (due.length === 0) continue;
      await refundJointly(
        due.map((i) => charges[i] as PartCharge),
        due.map((i) => parts[i] as Decision),
      );
    }
  }
}

/** Whether a policy limits how much is held at once. */
function isConcurrency(policy: Policy | undefined): boolean {
  return typeof policy?.algorithm === "object" && policy.algorithm.name === "concurrency";
}
