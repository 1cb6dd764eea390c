/** The public types of rule sets. */
import type { Allowed, Decision, Denied } from "../core/decision.ts";
import type { OnEvent } from "../core/events.ts";
import type { ObserverLike } from "../core/observer.ts";
import type { Store } from "../core/store.ts";
import type { OptionalFact } from "../http/identity/identities.ts";
import type { RequestRules } from "../http/request-charges.ts";
import type { FindOverride } from "./overrides.ts";
import type { RuleHold } from "./rule-charges.ts";
import type { RuleMatch } from "./rule-match.ts";
import type { FactValues, RulesData } from "./rules-data.ts";

/** Options of a rule set. */
export interface RulesOptions {
  /** Where buckets are stored. Default: a memory store of its own. */
  store?: Store;
  /** Separates rule sets that share a store: 1 to 48 printable ASCII characters. Default: none. */
  prefix?: string;
  /**
   * Returns the override of a limit for a key, such as `("api", "tenant:acme")`. The result is cached for 60 s, and then
   * used while it is read again. If the function fails, the last result or the rule's own limit applies. Default: none.
   */
  overrides?: FindOverride;
  /** Maximum time to wait for the store, in ms or as text. Default: 250; on Durable Objects 1000. */
  deadlineMs?: number | string;
  /** Number of processes that share the store. While it is unavailable, each allows its share. Default: 1. */
  instances?: number;
  /** Maximum time to repeat a denial without a round trip, in ms or as text; 0 turns that off. Default: 1000. */
  localDenialMs?: number | string;
  /** Called with events: an unavailable store, an unknown plan, a failed override. Default: process warnings. */
  onEvent?: OnEvent;
  /** Counts and reports decisions: the result of `createObserver`. Default: that of the first middleware which has one. */
  observer?: ObserverLike;
}

/** A request without a server. */
export interface RuleRequest<F extends string = string> {
  /** The HTTP method. */
  readonly method: string;
  /** The path as it was received. */
  readonly path: string;
  /** The IP address of the caller. Default: unknown. */
  readonly ip?: string | undefined;
  /** What is known about the request. Default: nothing. */
  readonly facts?: FactValues<F | OptionalFact | "clearance">;
}

/** Rules that are in force. `F` are the facts that they use. */
export interface RuleSet<F extends string = string> extends RequestRules<F> {
  /** 8 hex digits derived from the data: equal rules have equal versions. */
  readonly version: string;
  /** The rules in force. */
  readonly data: Readonly<RulesData>;
  /** Finds the rule of a request and the policies that apply to its plan. Charges nothing. */
  find(method: string, path: string, facts?: FactValues<F | OptionalFact | "clearance">): RuleMatch;
  /** Like `consume`, for rules with `hold` or concurrency limits: the caller settles or cancels the hold. */
  hold(request: RuleRequest<F>): Promise<RuleHoldDecision>;
  /**
   * Charges a request without a server: in tRPC, queues and tests. Rejects with `unsupported` if the rule holds amounts or
   * has a concurrency limit.
   */
  consume(request: RuleRequest<F>): Promise<RuleDecision>;
  /** Describes one request as text; without arguments, all rules as a table. */
  explain(method?: string, path?: string, facts?: FactValues<F | OptionalFact | "clearance">): string;
  /**
   * Replaces the rules and resolves with the changes in words. Rejects and changes nothing if `next` is invalid. Many rules
   * and overrides are read in slices, so that requests are served meanwhile. Don't change `next` until it resolves.
   */
  replace(next: unknown): Promise<readonly string[]>;
  /** Releases the policy names on the store. Later calls fail. */
  dispose(): Promise<void>;
}

/** The decision on a request with its rule: allowed with what is held, or denied. */
export type RuleHoldDecision = ((Allowed & { readonly hold: RuleHold }) | Denied) & { readonly rule: string };

/** A decision, and the rule that it was made by. */
export type RuleDecision = Decision & {
  readonly rule: string;
  /** Whether a limit with the action `"flag"` is exceeded. */
  readonly limited?: true;
};
