/** The options of every `rateLimit`, whichever server it is for. */

import type { Duration } from "../../base/rate.ts";
import type { Decision, Denied } from "../../core/decision.ts";
import type { LimiterEvent } from "../../core/events.ts";
import type { ObserverLike } from "../../core/observer.ts";
import type { Policy, ResolvedPolicy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { Hold, HoldDecision, HoldOptions } from "../../holds/hold-options.ts";
import type { HeaderMode, HeaderOptions } from "../../http/headers/rate-limit-headers.ts";
import type { Identity } from "../../http/identity/client-key.ts";
import type { OptionalFact } from "../../http/identity/identities.ts";
import type { RequestAbuse } from "../../http/request-abuse.ts";
import type { RequestRules } from "../../http/request-charges.ts";
import type { RefundIf } from "../../http/request-ending.ts";
import type { PolicyText } from "../../policy/text-type.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** The methods of a limiter that a middleware calls. Every limiter of sluice has them; a third-party object may. */
export interface LimiterLike {
  /** Takes `cost` from the key's budget if it fits. */
  consume(key: string, cost?: number): Decision | PromiseLike<Decision>;
  /** Like `consume`, without a promise. Preferred if present. */
  consumeSync?(key: string, cost?: number): Decision;
  /** Reserves `amount` until it is settled. Required for `hold` on a limiter that is not one of sluice. */
  hold?(key: string, amount?: number, options?: HoldOptions): Promise<HoldDecision>;
  /** Like `hold`, without a promise. Preferred if present. */
  holdSync?(key: string, amount?: number, options?: HoldOptions): HoldDecision;
  /** Returns `cost` to the key's budget. Required for `refundIf`. */
  refund?(key: string, cost: number, decision?: Decision): unknown;
  /** The policy, for header fields and problem documents. */
  getPolicy?(): ResolvedPolicy;
  /** The policies of a combination. */
  getPolicies?(): readonly ResolvedPolicy[];
}

/** One of several limits on a request, with a key and a cost of its own. */
export interface RequestLimit<Args extends HandlerArgs> {
  /** A limiter created by sluice, or a function that returns one; `undefined` if the limit does not apply. */
  limiter: RateLimiter | ((...args: Args) => RateLimiter | undefined | PromiseLike<RateLimiter | undefined>);
  /** Returns the key to charge. Default: `key` of `rateLimit`, or the client's key as determined by `identity`. */
  key?: (...args: Args) => string | PromiseLike<string>;
  /** The cost of the request, a whole number. Default: `cost` of `rateLimit`, or 1. */
  cost?: number | ((...args: Args) => number | PromiseLike<number>);
}

/** How requests whose cost is known only afterwards are charged. */
export interface RequestHold<Args extends HandlerArgs> {
  /** The amount to hold until the response ends, a whole number >= 1. Default: `cost`. */
  estimate?: number | ((...args: Args) => number | PromiseLike<number>);
  /**
   * Returns the actual cost when the response has ended; `undefined`: the estimate. Not called if the handler has
   * reported the cost with `getRateLimit(request).settle(cost)`. Default: the estimate.
   */
  actual?: (outcome: RequestOutcome, ...args: Args) => number | undefined | PromiseLike<number | undefined>;
  /**
   * How long a hold lasts unless it is renewed, which happens while the response is open: up to 1 d, in ms or as text. On
   * Workers timers end with the request, so choose the longest response. Default: the lease of the policy, or 60 000.
   */
  forMs?: Duration;
}

/** The decision on a request, as returned by `getRateLimit`. */
export type RequestDecision = Decision & {
  /** The hold of the request, if its cost is held. The middleware settles it when the response ends. */
  readonly hold?: Hold;
  /**
   * Reports the actual cost of a request whose cost is held; with rules, of each held fact: `{ tokens: 812 }`. It is
   * charged when the response ends.
   */
  settle?(actual: number | Readonly<Record<string, number>>): void;
  /**
   * Reports that the request succeeded, such as a correct password. Refunds it if `refundIf` is `"reported"` or
   * `"succeeded"`, also if the client has left. Missing if nothing can be refunded.
   */
  succeeded?(): void;
  /** The rule that applies to the request, if there are rules. */
  readonly rule?: string;
  /** Whether a limit of the rule with the action `"flag"` is exceeded. */
  readonly limited?: true;
};

/** One function per fact that the rules use, called with the arguments of the middleware. */
export type FactFunctions<F extends string, Args extends HandlerArgs> = {
  readonly [fact in F | OptionalFact]?: FactFunction<Args>;
} & { readonly [fact in Exclude<F, OptionalFact>]: FactFunction<Args> };

/** Requires `facts` if the rules use facts that are known when the code is compiled. */
export type RequiredFacts<F extends string> = string extends F
  ? unknown
  : [Exclude<F, OptionalFact>] extends [never]
    ? unknown
    : { readonly facts: object };

/** Returns a fact about a request: text or a number; `undefined` if it is unknown. */
export type FactFunction<Args extends HandlerArgs> = (
  ...args: Args
) => string | number | undefined | PromiseLike<string | number | undefined>;

/** How a request ended, as passed to `refundIf` and `hold.actual`. */
export interface RequestOutcome {
  /** The status that was sent; `undefined` if none was. */
  readonly status: number | undefined;
  /** The error that the handler threw, on servers that pass it to middleware. */
  readonly error?: unknown;
  /** Whether the client disconnected before the response was sent; with `Response`, before the handler returned it. */
  readonly aborted: boolean;
}

/** A decision and the request that it was made for, as passed to `onDecision`. */
export interface DecidedRequest<Args extends HandlerArgs> {
  /** The arguments of the middleware: the request, and whatever else the server passes. */
  readonly args: Args;
  /** The key that was charged; of several limits, the key of the limiting one. */
  readonly key: string;
  /** The decision. */
  readonly decision: Decision;
  /** The rule of the limiting charge, if there are rules. */
  readonly rule?: string;
  /** Set if the decision was counted and not enforced: by a rule in shadow mode, or a limit with the action `"flag"`. */
  readonly mode?: "shadow" | "flag";
}

/** A denied decision and the request that it was made for, as passed to `onLimited`. */
export interface LimitedRequest<Args extends HandlerArgs> extends DecidedRequest<Args> {
  /** The denied decision. */
  readonly decision: Denied;
}

/** The options of every `rateLimit`. Exactly one of `policy`, `policies`, `limiter`, `limits` and `rules` is required. */
export interface RateLimitOptions<
  Args extends HandlerArgs,
  Own,
  F extends string = string,
  // Where the compiler has to infer a part of the arguments, they differ.
  AbuseArgs extends HandlerArgs = Args,
> {
  /** One limit, in memory: a policy, or text such as `"100/m"`. */
  policy?: Policy | PolicyText;
  /** Several limits with the same key, all or nothing, in memory: `["10/s", "1000/h"]`. */
  policies?: readonly (Policy | PolicyText)[];
  /** A limiter on any store, or a function that returns the limiter for a request, such as that of the user's plan. */
  limiter?: LimiterLike | ((...args: Args) => LimiterLike | PromiseLike<LimiterLike>);
  /** Several limiters with keys and costs of their own, all or nothing: `[{ limiter, key, cost }]`. At most 16 policies. */
  limits?: readonly RequestLimit<Args>[];
  /** A rule set of `defineRules` or `loadRules`. Not with `key`, `cost`, `hold` and `refundIf`, which rules define. */
  rules?: RequestRules<F>;
  /** One function per fact that the rules use: `{ tenant: (req) => req.session.tenantId }`. Required if they use facts. */
  facts?: FactFunctions<F, Args>;
  /** Lists, signals, penalties, traps and challenges, made by `abuse(...)` of `sluice/abuse`. Default: none. */
  abuse?: RequestAbuse<AbuseArgs>;
  /** Returns the key to charge. Default: the client's key, as determined by `identity`. */
  key?: (...args: Args) => string | PromiseLike<string>;
  /** The cost of the request, a whole number. Default: 1. */
  cost?: number | ((...args: Args) => number | PromiseLike<number>);
  /**
   * Holds an estimate while the request runs, and charges the actual cost when the response ends. With `limits`, a limit
   * with a `cost` of its own is taken, and every other one is held. Concurrency limits are always held.
   */
  hold?: RequestHold<Args>;
  /** How clients are identified: the platform or proxies in front, tokens, API keys. Default: the socket's IP address. */
  identity?: Identity;
  /** The syntax of the RateLimit header fields; `false` for none. Default: `"draft-8"`. */
  headers?: HeaderMode | readonly HeaderMode[] | HeaderOptions | false;
  /** Returns `true` for requests that are neither counted nor limited. Not called for CORS preflights. Default: none. */
  skip?: (...args: Args) => boolean | PromiseLike<boolean>;
  /** Budget for CORS preflights per IP address; `"charge"` treats them like any request. Default: 50 per second, burst 500. */
  preflight?: Policy | PolicyText | "charge";
  /** `"shadow"` counts and calls `onDecision`, but rejects nothing and adds no headers. Default: `"enforce"`. */
  mode?: "enforce" | "shadow";
  /**
   * How long a promise of `key`, `cost`, `skip`, `limiter`, a fact, or a function of `abuse` may stay pending, in ms or as
   * text, up to 10 minutes. Then the request fails as if it had rejected; a signal counts as absent. Default: 5000.
   */
  callbackDeadlineMs?: Duration;
  /** Maximum delay by a leaky bucket in ms. Requests that would wait longer are rejected. Default: 10 000. */
  maxDelayMs?: number;
  /**
   * Writes the body of a rejected request instead of the problem document. The headers are set; the status is 429, or
   * one from 400 that it sets. If it throws, or sends nothing for 10 s, `onError` is called and the problem document sent.
   */
  onLimited?: (limited: LimitedRequest<Args>) => Own;
  /** Called with every decision, and with rejected preflights. It is not awaited, and its errors go to `onError`. */
  onDecision?: (decided: DecidedRequest<Args>) => void;
  /**
   * Requests whose cost is refunded when they finish: those that `"failed"` (an error, or a status from 400), those that
   * the handler has `"reported"` with `getRateLimit(request).succeeded()`, those that `"succeeded"` (reported, or a status
   * below 300), or those for which a function returns `true`. Default: none.
   */
  refundIf?: RefundIf | ((outcome: RequestOutcome, ...args: Args) => boolean | PromiseLike<boolean>);
  /**
   * Called with errors. For an error of `key`, `cost`, `skip` or a limiter it may return `"allow"`, which continues the
   * request uncounted, or `"deny"`, which rejects it with 503. Default: the server's error handler, or a process warning.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a function that only logs returns nothing
  onError?: (error: unknown, ...args: Args) => "allow" | "deny" | undefined | void;
  /** Called with warnings, such as a proxy that `identity` does not name. Default: the important ones are process warnings. */
  onEvent?: (event: LimiterEvent) => void;
  /** Counts and reports requests and decisions: the result of `createObserver` of `sluice/observe`. Default: none. */
  observer?: ObserverLike;
}
