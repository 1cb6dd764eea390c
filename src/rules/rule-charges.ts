/** The charges of one request that rules have found: applied, settled, refunded and reported together. */
import { isCost } from "../core/charge.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Decision } from "../core/decision.ts";
import { optionError } from "../core/errors.ts";
import { ASYNC_DISPOSE, type Hold, type HoldMethods, parseHoldOptions, type Settlement } from "../core/hold.ts";
import { andThen, type MaybePromise } from "../core/maybe-promise.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { CountedDecision, RequestCharges, RequestEnding, RuleOutcome } from "../http/request-charges.ts";
import { applyGroups } from "../limiter/charge-groups.ts";
import { createHold } from "../limiter/hold.ts";
import { refundJointly } from "../limiter/joint-charge.ts";
import { type JointCharge, holdTo } from "../limiter/limiter-part.ts";
import { merge } from "../limiter/merge.ts";
import { takeCharge } from "../limiter/part-charges.ts";
import type { StorePort } from "../limiter/sync-port.ts";
import type { RuleCharge } from "./compiled-rules.ts";
import type { ParsedRule } from "./parsed-rules.ts";

/** One charge of one request. */
export interface ActiveCharge {
  readonly rule: ParsedRule;
  readonly charge: RuleCharge;
  readonly key: string;
  readonly amount: number;
}

/** Charges that are decided all or nothing. */
interface Group {
  readonly mode: "enforced" | "shadow" | "flag";
  readonly active: readonly ActiveCharge[];
  readonly charges: readonly JointCharge[];
  /** Absent until the charges were applied. */
  decision?: Decision;
}

/** A hold, and what it belongs to. */
interface OpenHold {
  readonly hold: Hold;
  readonly group: Group;
  /** Whether it is a lease that ends with the request. */
  readonly isLease: boolean;
}

/** The id and duration of the holds of one request. Leases are held apart, since they last for another time. */
type HoldIds = { readonly [mode in "hold" | "lease"]: { readonly id: string; readonly forMs: number } | undefined };

/** The charges of one request. */
export class RuleCharges implements RequestCharges {
  readonly policies: readonly ResolvedPolicy[];
  readonly rules: RuleOutcome;
  /** The rule that the request is reported with if no charge is enforced. */
  readonly firstRule: string;
  private readonly port: StorePort;
  private readonly groups: readonly Group[];
  private readonly ids: HoldIds;
  private readonly counted: CountedDecision[] = [];
  private readonly openHolds: OpenHold[] = [];
  private actual: Readonly<Record<string, number>> = {};

  /** `policies` are those of the enforced charges, in order. */
  constructor(
    port: StorePort,
    firstRule: string,
    active: readonly ActiveCharge[],
    policies: readonly ResolvedPolicy[],
  ) {
    this.port = port;
    this.firstRule = firstRule;
    this.policies = policies;
    this.ids = holdIds(active);
    this.groups = this.groupsOf(active);
    this.rules = this.outcome();
  }

  get isFree(): boolean {
    return this.groups.every(({ active }) => active.every(({ amount }) => amount === 0));
  }

  /** Whether something is held, so that the request has to be finished. */
  get isHeld(): boolean {
    return this.groups.some(({ charges }) => charges.some(({ mode }) => mode === "hold"));
  }

  apply(): MaybePromise<Decision> {
    const [enforced, ...counted] = this.groups as [Group, ...Group[]];
    const sentAt = monotonicMs();
    const decided = applyGroups(this.port, {
      enforced: enforced.charges,
      counted: counted.map(({ charges }) => charges),
    });
    return andThen(decided, (decisions) => {
      const decision = decisions.enforced ?? notLimited();
      enforced.decision = decision;
      for (const [i, group] of counted.entries()) {
        const decision = decisions.counted[i];
        if (!decision) continue;
        group.decision = decision;
        const { rule, key } = limitingOf(group, decision) as ActiveCharge;
        this.counted.push({ mode: group.mode as "shadow" | "flag", rule: rule.name, key, decision });
      }
      for (const group of this.groups) this.openGroup(group, sentAt);
      // A denied request does not run, so nothing ends its leases later.
      if (!decision.allowed) void this.settleHolds(() => 0).catch(() => {});
      return decision;
    });
  }

  async refund(): Promise<void> {
    await Promise.all([this.refundTaken(() => true), this.settleHolds(() => 0)]);
  }

  keyOf(decision: Decision): string {
    return this.limiting(decision)?.key ?? "";
  }

  costOf(decision: Decision): number {
    return this.limiting(decision)?.amount ?? 0;
  }

  keysByPolicy(): readonly string[] {
    return this.enforced.map(({ key }) => key);
  }

  costAt(index: number): number {
    return this.enforced[index]?.amount ?? 0;
  }

  /** All holds of the request as one, for callers without a server. */
  holdOf(decision: Decision): Hold {
    const holds = this.openHolds.map(({ hold }) => hold);
    const first = (this.openHolds.find(({ isLease }) => !isLease) ?? this.openHolds[0])?.hold as Hold;
    const settle = async (actual?: number | readonly number[] | Readonly<Record<string, number>>): Promise<Settlement> => {
      if (typeof actual === "object" && !Array.isArray(actual)) this.recordActual(actual as Record<string, number>);
      else if (actual !== undefined) this.recordActual(Object.fromEntries(this.heldFacts().map((fact) => [fact, actual])) as never);
      return this.settleActual();
    };
    const hold: HoldMethods = {
      id: first.id,
      key: this.keyOf(decision),
      amount: first.amount,
      forMs: Math.min(...holds.map(({ forMs }) => forMs)),
      settle,
      cancel: () => settle(0),
      async renew(options) {
        const decisions = await Promise.all(holds.map((hold) => hold.renew(options)));
        return decisions.length === 1 ? (decisions[0] as Decision) : merge(decisions);
      },
    };
    return Object.assign(hold, { [ASYNC_DISPOSE]: async () => void (await this.settleActual()) }) as unknown as Hold;
  }

  private get enforced(): readonly ActiveCharge[] {
    return (this.groups[0] as Group).active;
  }

  private limiting(decision: Decision): ActiveCharge | undefined {
    return limitingOf(this.groups[0] as Group, decision);
  }

  private outcome(): RuleOutcome {
    const { counted, openHolds, groups } = this;
    return {
      ruleOf: (decision) => this.limiting(decision)?.rule.name ?? this.firstRule,
      counted,
      get holds() {
        return openHolds.map(({ hold }) => hold);
      },
      mayRefund: groups.some(({ active }) => active.some(({ rule }) => rule.refundIf !== undefined)),
      settle: (actual) => this.recordActual(actual),
      finish: (ending) => this.finish(ending),
    };
  }

  /** The first group is enforced, and may be empty. */
  private groupsOf(active: readonly ActiveCharge[]): Group[] {
    const ofMode = (mode: Group["mode"]): Group => {
      const own = active.filter(({ charge }) => charge.group === mode);
      return { mode, active: own, charges: own.map((one) => this.jointCharge(one)) };
    };
    // Most rules have neither.
    if (active.every(({ charge }) => charge.group === "enforced")) {
      return [{ mode: "enforced", active, charges: active.map((one) => this.jointCharge(one)) }];
    }
    const counted = [ofMode("shadow"), ofMode("flag")].filter(({ active }) => active.length > 0);
    return [ofMode("enforced"), ...counted];
  }

  private jointCharge({ charge, key, amount }: ActiveCharge): JointCharge {
    const { part, mode } = charge;
    const hold = mode === "take" || amount === 0 ? undefined : this.ids[mode];
    return hold ? holdTo(part, key, amount, hold, true) : takeCharge(part, key, amount);
  }

  /** Creates the holds of a group that was admitted. */
  private openGroup(group: Group, sentAt: number): void {
    const { charges, decision } = group;
    if (!decision?.allowed) return;
    const indexes = charges.map((_, i) => i);
    for (const mode of ["hold", "lease"] as const) {
      const ids = this.ids[mode];
      if (!ids || !charges.some(({ hold }) => hold?.id === ids.id)) continue;
      const hold = createHold(decision, { ...ids, charges, indexes }, sentAt);
      this.openHolds.push({ hold, group, isLease: mode === "lease" });
    }
  }

  private recordActual(actual: Readonly<Record<string, number>>): void {
    const held = this.heldFacts();
    if (typeof actual !== "object" || actual === null) {
      throw optionError("invalid-cost", "actual", "the amount of each held fact, such as { tokens: 812 }", actual);
    }
    for (const [fact, amount] of Object.entries(actual)) {
      if (!held.includes(fact)) {
        const names = held.join(", ");
        throw optionError("invalid-option", "actual", `amounts of held facts, which are ${names || "none here"}`, fact);
      }
      if (!isCost(amount)) {
        throw optionError("invalid-cost", `actual.${fact}`, "a whole number from 0 to 2147483647", amount);
      }
    }
    this.actual = { ...this.actual, ...actual };
  }

  /** The facts whose amounts are held, each once. */
  private heldFacts(): string[] {
    const held = this.groups.flatMap(({ active }) => active.filter(({ charge }) => charge.mode === "hold"));
    return [...new Set(held.map(({ charge }) => charge.of as string))];
  }

  private async finish(ending: RequestEnding): Promise<void> {
    await Promise.all([
      this.settleActual(),
      this.refundTaken((rule) => rule.refundIf === ending),
    ]);
  }

  /** Settles what is held: facts at their actual amount, or the estimate. */
  private settleActual(): Promise<Settlement> {
    const { actual } = this;
    return this.settleHolds(({ charge, amount }) => actual[charge.of as string] ?? amount);
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
    for (const { active, charges, decision } of this.groups) {
      if (!decision?.allowed) continue;
      const parts = decision.parts ?? [decision];
      const due = charges.flatMap((charge, i) =>
        charge.mode === "take" && isDue((active[i] as ActiveCharge).rule) ? [i] : [],
      );
      if (due.length === 0) continue;
      await refundJointly(
        due.map((i) => charges[i] as JointCharge),
        due.map((i) => parts[i] as Decision),
      );
    }
  }
}

/** The charge that a decision is about. */
function limitingOf({ active }: Group, decision: Decision): ActiveCharge | undefined {
  const { parts } = decision;
  if (!parts) return active[0];
  const index = parts.findIndex(
    ({ policy, allowed, remaining, retryAfterMs }) =>
      policy === decision.policy &&
      allowed === decision.allowed &&
      remaining === decision.remaining &&
      retryAfterMs === decision.retryAfterMs,
  );
  return active[Math.max(0, index)];
}

function holdIds(active: readonly ActiveCharge[]): HoldIds {
  if (active.every(({ charge }) => charge.mode === "take")) return NO_HOLDS;
  const idFor = (mode: "hold" | "lease", durationOf: (active: ActiveCharge) => number) => {
    const durations = active.filter(({ charge }) => charge.mode === mode).map(durationOf);
    return durations.length > 0 ? parseHoldOptions({}, Math.min(...durations)) : undefined;
  };
  return {
    hold: idFor("hold", ({ rule }) => rule.holdMs as number),
    lease: idFor("lease", ({ charge }) => charge.part.policy.windowMs),
  };
}

const NO_HOLDS: HoldIds = { hold: undefined, lease: undefined };

/** The decision on a request that no limit is enforced on. */
export function notLimited(): Decision {
  return { allowed: true, policy: "", limit: 0, remaining: 0, resetAfterMs: 0, nextAfterMs: 0, unknown: true };
}
