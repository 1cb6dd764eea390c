/** Counts the decisions on charges, and reports them unless the caller does. */

import { monotonicMs } from "../base/clock.ts";
import type { Act, PartCharge, PartGroup, PolicyObserver } from "../core/apply.ts";
import type { Decision } from "../core/decision.ts";
import type { ObserverPort } from "../core/observer.ts";
import { merge } from "../joint/merge.ts";
import { outcomeOf } from "./outcomes.ts";

/** Counts the decisions of a call for every observer of its charges. `sentAt` is in monotonic ms. */
export function countDecisions(
  groups: readonly PartGroup[],
  act: Act,
  decisions: readonly Decision[][],
  sentAt: number,
): void {
  if (groups.every((group) => group.every(({ mode }) => mode === "peek"))) return;
  const ports = new Set<ObserverPort>();
  for (const group of groups) {
    for (const { observed } of group) {
      for (let own = observed; own; own = own.next) ports.add(own.port as ObserverPort);
    }
  }
  for (const port of ports) countFor(port, groups, act, decisions, sentAt);
}

/** Counts what one observer observes of a call. */
function countFor(
  port: ObserverPort,
  groups: readonly PartGroup[],
  act: Act,
  decisions: readonly Decision[][],
  sentAt: number,
): void {
  const enforcedGroups = act.enforcedGroups ?? groups.length;
  // Fewer, if the first group was denied from the cache.
  for (let g = 0; g < decisions.length; g++) {
    const group = groups[g] as PartGroup;
    const own = decisions[g] as Decision[];
    const isEnforced = g < enforcedGroups;
    const isAllowed = own.every(({ allowed }) => allowed);
    for (let i = 0; i < group.length; i++) {
      const decision = own[i] as Decision;
      // Parts that a denied group did not deny are not counted.
      if (isAllowed || !decision.allowed) {
        countPart(port, group[i] as PartCharge, decision, isEnforced, groups.length === 1 && group.length === 1);
      }
    }
    if (act.reporter !== port && !(isAllowed && !port.isListening)) report(port, group, own, isEnforced, sentAt);
  }
}

/** The cost of what is held is counted when it is settled. Slots of a concurrency limit are not charged then. */
function countPart(
  port: ObserverPort,
  charge: PartCharge,
  decision: Decision,
  isEnforced: boolean,
  isAlone: boolean,
): void {
  const { key, cost, mode, policy } = charge;
  // A penalty takes part in every request, and decides only while its key is blocked.
  const isPenalty = policy.kind === "penalty" && !isAlone;
  if (isPenalty && decision.allowed) return;
  const isCharged = mode === "take" || mode === "penalty" || policy.kind === "concurrency" || !decision.allowed;
  countersOf(port, charge)?.count(decision, key, isCharged && !isPenalty ? cost : 0, isEnforced);
}

/** The counters of this observer: a limiter may have several observers. */
function countersOf(port: ObserverPort, { observed }: PartCharge): PolicyObserver | undefined {
  let own = observed;
  while (own && own.port !== port) own = own.next;
  return own;
}

function report(
  port: ObserverPort,
  group: PartGroup,
  decisions: readonly Decision[],
  isEnforced: boolean,
  sentAt: number,
): void {
  const decision = decisions.length === 1 ? (decisions[0] as Decision) : merge(decisions);
  const { policy, allowed, source } = decision;
  const limiting = decisions.findIndex((part) => part.policy === policy && part.allowed === allowed);
  const { key, cost } = group[Math.max(0, limiting)] as PartCharge;
  const isBlocked = group.some((charge, i) => charge.policy.kind === "penalty" && !decisions[i]?.allowed);
  const outcome = outcomeOf(decision, isEnforced, isBlocked);
  // Cached denials don't wait for the store.
  const isRemote = source !== "cache" && group.some(({ engine }) => !engine.syncStore);
  const durationMs = isRemote ? monotonicMs() - sentAt : undefined;
  port.decided({ rule: policy, policy, outcome, key, cost, decision, durationMs });
}
