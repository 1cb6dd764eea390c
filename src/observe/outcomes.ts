/** The outcomes of requests and decisions, as columns of counters. */
import type { Decision } from "../core/decision.ts";
import type { Outcome } from "../core/observer.ts";

/** Every outcome, in the order of the columns. */
export const OUTCOMES: readonly Outcome[] = [
  "allowed",
  "denied",
  "would-deny",
  "challenged",
  "blocked",
  "unavailable",
  "replayed",
];

/** The column of each outcome. */
export const COLUMN: Readonly<Record<Outcome, number>> = {
  allowed: 0,
  denied: 1,
  "would-deny": 2,
  challenged: 3,
  blocked: 4,
  unavailable: 5,
  replayed: 6,
};

/** The name of the policy that a decision is about. Those of third-party limiters may have none. */
export function policyNameOf({ policy }: { readonly policy?: unknown }): string {
  return typeof policy === "string" ? policy : "unnamed";
}

/** The outcome of a decision. `isBlock`: it is denied by a penalty. */
export function outcomeOf(decision: Decision, isEnforced: boolean, isBlock: boolean): Outcome {
  if (decision.allowed) return "allowed";
  if (!isEnforced) return "would-deny";
  if (decision.unavailable) return "unavailable";
  return isBlock ? "blocked" : "denied";
}
