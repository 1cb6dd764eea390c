/** Observes the requests of middleware: which outcome each has, and which rule it belongs to. */
import { monotonicMs } from "../base/clock.ts";
import { isPromise, type MaybePromise } from "../base/maybe-promise.ts";
import type { Decision } from "../core/decision.ts";
import type { ObserverPort, Outcome } from "../core/observer.ts";
import { isPenalty, policyList } from "../http/headers/policies.ts";
import type { CountedDecision, RequestCharges } from "../http/request-charges.ts";
import type { RequestObserver } from "../http/request-observer.ts";
import { outcomeOf, policyNameOf } from "./outcomes.ts";

/** Requests that could not be checked have no rule. */
const NO_RULE = "none";

/** Observes the requests of one middleware. */
export class ObservedRequests<Args extends readonly unknown[]> implements RequestObserver<Args> {
  readonly port: ObserverPort;
  private readonly reader: { method(args: Args): string };
  /** When charges of remote stores were applied, in monotonic ms. */
  private readonly startedAt: WeakMap<RequestCharges, number> = new WeakMap();

  constructor(port: ObserverPort, reader: { method(args: Args): string }) {
    this.port = port;
    this.reader = reader;
  }

  apply(charges: RequestCharges, isEnforced: boolean): MaybePromise<Decision> {
    const { port } = this;
    const decided = charges.apply({ reporter: port, isEnforced });
    if (isPromise(decided)) this.startedAt.set(charges, monotonicMs());
    return decided;
  }

  decided(args: Args, charges: RequestCharges, decision: Decision, action: "enforce" | "shadow" | "challenge"): void {
    const { port } = this;
    const { rules } = charges;
    const exceeded = rules?.counted.find((counted) => !counted.decision.allowed);
    const rule = rules ? rules.ruleOf(decision) : policyNameOf(decision);
    if (exceeded && decision.allowed) {
      port.request(exceeded.rule, "would-deny", exceeded.decision);
      this.reportCounted(args, charges, exceeded);
      return;
    }
    const outcome =
      action === "challenge" ? "challenged" : outcomeOf(decision, action === "enforce", isBlocked(charges, decision));
    port.request(rule, outcome, decision);
    if (outcome === "allowed" && !port.isListening) return;
    this.report(args, rule, outcome, charges, decision);
  }

  preflight(args: Args, key: string, decision: Decision, isEnforced: boolean): void {
    const { port } = this;
    const { policy } = decision;
    const outcome = outcomeOf(decision, isEnforced, false);
    port.request(policy, outcome, decision);
    port.decided({
      rule: policy,
      policy,
      outcome,
      key,
      cost: 1,
      decision,
      per: "ip",
      method: knownMethod(this.reader.method(args)),
    });
  }

  blocked(by: "list" | "trap"): void {
    this.port.request(by, "blocked", undefined);
  }

  failed(isAllowed: boolean): void {
    this.port.request(NO_RULE, isAllowed ? "allowed" : "unavailable", undefined);
  }

  private report(args: Args, rule: string, outcome: Outcome, charges: RequestCharges, decision: Decision): void {
    const key = charges.keyOf(decision);
    const described = charges.rules?.describe(decision);
    this.port.decided({
      rule,
      policy: policyNameOf(decision),
      outcome,
      key,
      cost: charges.costOf(decision),
      decision,
      per: described ? described.per : identityOf(key),
      durationMs: this.durationOf(charges, decision),
      method: knownMethod(this.reader.method(args)),
      route: described?.route,
    });
  }

  private reportCounted(args: Args, charges: RequestCharges, counted: CountedDecision): void {
    const { rule, key, cost, per, route, decision } = counted;
    this.port.decided({
      rule,
      policy: decision.policy,
      outcome: "would-deny",
      key,
      cost,
      decision,
      per,
      durationMs: this.durationOf(charges, decision),
      method: knownMethod(this.reader.method(args)),
      route,
    });
  }

  /** How long the request waited for a remote store. Cached denials don't wait for it. */
  private durationOf(charges: RequestCharges, { source }: Decision): number | undefined {
    const startedAt = this.startedAt.get(charges);
    return startedAt === undefined || source === "cache" ? undefined : monotonicMs() - startedAt;
  }
}

/** Whether a penalty denies the request. */
function isBlocked({ policies }: RequestCharges, decision: Decision): boolean {
  if (decision.allowed || !policies) return false;
  const list = policyList(policies);
  const { parts = [decision] } = decision;
  return parts.some((part, i) => !part.allowed && isPenalty(list[i]));
}

/** What a key of `identity` identifies. The text of other keys may start with anything. */
function identityOf(key: string): string | undefined {
  if (key.startsWith("ip:")) return "ip";
  if (key.startsWith("user:")) return "user";
  return key.startsWith("key:") ? "apiKey" : undefined;
}

/** Methods of RFC 9110, RFC 5789 and QUERY. */
const METHODS: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "QUERY",
  "TRACE",
  "CONNECT",
]);
const MAX_METHOD_CHARS = 7;

/** The method of an event. Clients of HTTP/2 may send any text, which would fill logs and labels of metrics. */
function knownMethod(method: string): string {
  if (METHODS.has(method)) return method;
  const known = method.length <= MAX_METHOD_CHARS ? method.toUpperCase() : "";
  return METHODS.has(known) ? known : "other";
}
