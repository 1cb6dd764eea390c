/**
 * The contract between the gate of a middleware and what finds the charges of a request: the options of `rateLimit`, or
 * rules. The gate knows nothing else about them, so an application without rules does not contain them.
 */

import type { MaybePromise } from "../base/maybe-promise.ts";
import type { ReportedRequest } from "../core/apply.ts";
import type { Decision } from "../core/decision.ts";
import type { ObserverLike } from "../core/observer.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import type { Hold } from "../holds/hold-options.ts";
import type { Policies } from "./headers/policies.ts";
import type { ResponseData } from "./rejection.ts";
import type { RequestContext } from "./request-context.ts";
import type { RequestEnding } from "./request-ending.ts";
import type { RequestValues } from "./request-values.ts";

/** Everything that a request is charged: one decision. */
export interface RequestCharges {
  /** The policies that are charged; `undefined` if a third-party limiter does not report them. */
  readonly policies: Policies | undefined;
  /** Whether the request costs nothing, so there is nothing to refund. */
  readonly isFree: boolean;
  /** What rules add; `undefined` if the charges are those of the options. */
  readonly rules?: RuleOutcome;
  /** Takes all charges or none. Without a promise where that is possible. `request`: the caller reports the decision. */
  apply(request?: ReportedRequest): MaybePromise<Decision>;
  /** Refunds what an allowed decision has taken, and cancels what it holds. Charges that a store did not count are not refunded. */
  refund(decision: Decision): Promise<void>;
  /** The key of the limiting charge. */
  keyOf(decision: Decision): string;
  /** The cost of the limiting charge. */
  costOf(decision: Decision): number;
  /** One key per policy; `undefined` if there is one key for all of them. */
  keysByPolicy(): readonly string[] | undefined;
  /** The cost that is charged to a policy, by its index. */
  costAt(index: number): number;
}

/** What rules add to the charges of a request. Complete once the charges were applied. */
export interface RuleOutcome {
  /** The rule of the limiting charge. */
  ruleOf(decision: Decision): string;
  /** What the limiting charge is counted per, and the path of its rule's pattern if it has only one: for logs. */
  describe(decision: Decision): { readonly per: string | undefined; readonly route: string | undefined };
  /** The decisions on limits that are counted and not enforced. */
  readonly counted: readonly CountedDecision[];
  /** Whether a limit is enforced. If not, the decision has no numbers. */
  readonly isEnforced: boolean;
  /** Whether something is held until the response ends. */
  readonly isOpen: boolean;
  /** Whether amounts are held whose cost only the handler reports. */
  readonly awaitsCost: boolean;
  /** Whether a denial is only due to limits with the action `"challenge"`. */
  endsInChallenge(decision: Decision): boolean;
  /**
   * Adds `settle` to the decision, for the handler, and returns a function to call when the request has ended: it settles
   * what is held, and refunds what is due. `open` renews holds meanwhile. `undefined`: there is nothing to do.
   */
  begin(decision: Decision, open: HoldRenewals | undefined): ((ending: RequestEnding) => Promise<void>) | undefined;
  /** Frees the leases that are held, and leaves amounts to the end of the request. */
  endLeases(): Promise<void>;
  /** Stops to renew what is held. */
  stopRenewing(): void;
  /** The first rule that refunds requests that succeed, or that the handler reports; `undefined` if none does. */
  readonly refunding: { readonly rule: string; readonly refundIf: "succeeded" | "reported" } | undefined;
  /** Records that the handler has reported success. Refunds at once if the request has ended. */
  succeeded(): Promise<void>;
}

/** Renews holds while their work is open. */
interface HoldRenewals {
  add(hold: Hold): void;
  delete(hold: Hold): void;
}

/** A decision on limits that are counted and not enforced. */
export interface CountedDecision {
  /** Whether the limits are those of a rule in shadow mode, or have the action `"flag"`. */
  readonly mode: "shadow" | "flag";
  /** The rule. */
  readonly rule: string;
  /** The key of the limiting charge. */
  readonly key: string;
  /** The cost of the limiting charge. */
  readonly cost: number;
  /** What the limiting charge is counted per. */
  readonly per: string;
  /** The path of the rule's pattern, if it has only one. */
  readonly route: string | undefined;
  readonly decision: Decision;
}

/** The member of a rule set that middleware uses. */
export const REQUEST_RULES: unique symbol = Symbol.for("sluice.rules") as never;

/** A rule set as middleware uses it. `F` are the facts that the rules need. */
export interface RequestRules<F extends string = string> {
  readonly [REQUEST_RULES]: RulesMount<F>;
}

/** Connects rules with middleware. */
export interface RulesMount<F extends string = string> {
  /** The facts that the rules need. */
  readonly facts: readonly F[];
  /** Where and how their buckets are stored. */
  readonly storage: LimitStorage;
  /**
   * Returns a function that finds the charges of a request. `undefined`: it is not counted. A response is sent without
   * charging anything. Throws if the middleware lacks what the rules need; later versions of the rules are checked too.
   */
  mount<Args extends readonly unknown[]>(middleware: MountedMiddleware<Args>): FindCharges<Args>;
}

/** Where buckets are stored, and the options for a store that can fail. */
export interface LimitStorage {
  readonly store: Store;
  /** Whether the store belongs to the rules or options alone, and ends with them. */
  readonly isPrivate: boolean;
  readonly deadlineMs?: number | string | undefined;
  readonly localDenialMs?: number | string | undefined;
  readonly onEvent?: ((event: never) => void) | undefined;
  readonly observer?: ObserverLike | undefined;
}

/** Finds the charges of a request. `values` are what abuse prevention knows about it, if it is used. */
export type FindCharges<Args extends readonly unknown[]> = (
  args: Args,
  values?: RequestValues,
) => MaybePromise<RequestCharges | ResponseData | undefined>;

/** A middleware as rules use it. `Args` are the arguments that its server passes. */
export interface MountedMiddleware<Args extends readonly unknown[]> {
  /** The options of `rateLimit`. */
  readonly options: object;
  readonly reader: { method(args: Args): string; path(args: Args): string };
  /** The parts of a client's identity. */
  readonly parts: {
    readonly [part in "ip" | "user" | "apiKey"]: ((args: Args) => ReturnType<RequestContext[part]>) & {
      /** Whether `identity` provides it for some requests. Default: false. */
      readonly isProvided?: boolean;
    };
  };
  /** What abuse prevention adds to the rules; `undefined` without it. */
  readonly abuse?: AbuseAbilities | undefined;
}

/** What abuse prevention adds to limits. */
export interface AbuseAbilities {
  /** Charged with the limits of every request, at most two. */
  readonly penalties: readonly RequestPenalty[];
  /** Whether limits may end in a challenge. */
  readonly hasChallenge: boolean;
  /** Whether denials may be strikes. */
  readonly hasStrikes: boolean;
  /** Whether requests for traps are strikes, whatever the limits are. */
  readonly hasTraps: boolean;
  /** Whether signals provide a fact; further ones than `bot` are known only when a request arrives. */
  mayProvide(fact: string): boolean;
}

/** A penalty that blocks keys. */
export interface RequestPenalty {
  /** The identities that its keys are made of, such as ip and account. */
  readonly identities: readonly string[];
  /** A limiter with a penalty policy. */
  readonly limiter: RateLimiter;
  /** Whether a denial is a strike. If not, it only denies while the key is blocked. */
  readonly isStruck: boolean;
}

/** Whether the result of `chargesFor` is a response. */
export function isResponse(found: RequestCharges | ResponseData): found is ResponseData {
  return "status" in found;
}
