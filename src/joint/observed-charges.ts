/** Counts the decisions on several charges. The limiter of a single charge is wrapped by the observer instead. */
import { monotonicMs } from "../core/clock.ts";
import type { Decision } from "../core/decision.ts";
import type { ObserverPort, PolicyObserver } from "../core/observer.ts";
import type { JointCharge } from "../core/limiter-part.ts";

/** A call whose decision is observed. */
export interface ObservedCall {
  /** The observer that the decision is reported to, unless a middleware reports it. */
  readonly reporter: ObserverPort | undefined;
  /** Monotonic ms; `undefined` if every store is synchronous. */
  readonly startedAt: number | undefined;
  readonly isEnforced: boolean;
}

/** Starts to observe a call; `undefined` if no charge is observed. Call it before anything is awaited. */
export function observeCall(charges: readonly JointCharge[]): ObservedCall | undefined {
  for (const { failurePolicy } of charges) {
    if (!failurePolicy.observed) continue;
    if (charges.every(({ mode }) => mode === "peek")) return undefined;
    const { port } = failurePolicy.observed;
    const isRemote = charges.some((charge) => !charge.port.syncStore);
    return {
      reporter: port.isInRequest ? undefined : port,
      startedAt: isRemote ? monotonicMs() : undefined,
      isEnforced: port.isEnforced,
    };
  }
  return undefined;
}

/** Counts the decision of each policy, and reports the decision. Parts that a denied group did not deny are not counted. */
export function observeDecision(
  charges: readonly JointCharge[],
  decision: Decision,
  call: ObservedCall,
  isEnforced: boolean = call.isEnforced,
): void {
  const { parts } = decision;
  let limiting: JointCharge | undefined;
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i] as JointCharge;
    const { observed } = charge.failurePolicy;
    const part = parts?.[i] ?? decision;
    if (part.policy === decision.policy && part.allowed === decision.allowed) limiting ??= charge;
    if (observed && (decision.allowed || !part.allowed)) countPart(observed, charge, part, isEnforced);
  }
  const { reporter, startedAt } = call;
  if (!reporter || (decision.allowed && !reporter.isListening)) return;
  const { key, cost } = limiting ?? (charges[0] as JointCharge);
  const durationMs = startedAt === undefined ? undefined : monotonicMs() - startedAt;
  const isBlocked = charges.some(({ policy }, i) => policy.kind === "penalty" && !parts?.[i]?.allowed);
  const outcome = reporter.outcomeOf(decision, isEnforced, isBlocked);
  const { policy } = decision;
  reporter.decided({ rule: policy, policy, outcome, key, cost, decision, durationMs });
}

/** The cost of what is held is counted when it is settled. Slots of a concurrency limit are not charged then. */
function countPart(
  observed: PolicyObserver,
  { key, cost, mode, policy }: JointCharge,
  part: Decision,
  isEnforced: boolean,
): void {
  // A penalty takes part in every request, and decides only while its key is blocked.
  const isPenalty = policy.kind === "penalty";
  if (isPenalty && part.allowed) return;
  const isCharged = mode === "take" || policy.kind === "concurrency" || !part.allowed;
  observed.count(part, key, isCharged && !isPenalty ? cost : 0, isEnforced);
}
