/** What every `rateLimit` takes, whatever the server. */
import { checkCost } from "../../core/charge.ts";
import type { Decision, Denied } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import type { Policy, ResolvedPolicy } from "../../core/policy.ts";
import type { PolicyText } from "../../core/policy-text.ts";
import type { HeaderMode, HeaderOptions } from "../../http/headers/rate-limit-headers.ts";
import type { Identity } from "../../http/identity/client-key.ts";
import type { LimiterEvent } from "../../resilience/events.ts";

/** What a middleware asks of a limiter: ours, or any object that decides. */
export interface LimiterLike {
  /** May this key spend this cost now? */
  consume(key: string, cost?: number): Decision | PromiseLike<Decision>;
  /** The same at once; it is preferred where it is there. */
  consumeSync?(key: string, cost?: number): Decision;
  /** Needed for `refundIf`. */
  refund?(key: string, cost: number, decision?: Decision): unknown;
  getPolicy?(): ResolvedPolicy;
  getPolicies?(): readonly ResolvedPolicy[];
}

/** How a request ended. */
export interface Outcome {
  /** The status that was sent; `undefined` when none was. */
  readonly status: number | undefined;
  /** What the handler threw, where the server lets a middleware know. */
  readonly error?: unknown;
  /** Whether the client disconnected before the response was sent; with `Response`, before the handler returned it. */
  readonly aborted: boolean;
}

/** A decision and whom it was about. */
export interface Decided<Call extends readonly unknown[]> {
  /** The request, and what else the server hands to a middleware. */
  readonly call: Call;
  /** The key that was asked about. */
  readonly key: string;
  readonly decision: Decision;
}

/** A denial and whom it was about. */
export interface Limited<Call extends readonly unknown[]> extends Decided<Call> {
  readonly decision: Denied;
}

/** What every `rateLimit` takes. One of `policy`, `policies` and `limiter` is required. */
export interface RateLimitOptions<Call extends readonly unknown[], Own> {
  /** One limit, in memory: a policy, or text such as `"100/m"`. */
  policy?: Policy | PolicyText;
  /** Several limits, all or nothing, in memory: `["10/s", "1000/h"]`. */
  policies?: readonly (Policy | PolicyText)[];
  /** A limiter of your own, on any store, or a function that chooses one for the request: plans. */
  limiter?: LimiterLike | ((...call: Call) => LimiterLike | PromiseLike<LimiterLike>);
  /** Whose budget is spent. Default: that of the client, as `identity` tells it. */
  key?: (...call: Call) => string | PromiseLike<string>;
  /** What the request costs. Default: 1. */
  cost?: number | ((...call: Call) => number | PromiseLike<number>);
  /** How a client is told from others: the platform or proxies in front, tokens, API keys. Default: the socket's peer. */
  identity?: Identity;
  /** The syntax of the RateLimit fields; `false` for none. Default: `"draft-8"`. */
  headers?: HeaderMode | readonly HeaderMode[] | HeaderOptions | false;
  /** Requests that are neither counted nor limited. CORS preflights are not passed to it. Default: none. */
  skip?: (...call: Call) => boolean | PromiseLike<boolean>;
  /** Budget for CORS preflights per IP address; `"charge"` treats them like any request. Default: 50 per second, burst 500. */
  preflight?: Policy | PolicyText | "charge";
  /** `"shadow"` counts and tells `onDecision`, but denies nothing and adds no headers. Default: `"enforce"`. */
  mode?: "enforce" | "shadow";
  /** The longest that a request is held by a leaky bucket, in milliseconds; what would wait longer is denied. Default: 10 000. */
  maxDelayMs?: number;
  /**
   * Writes the body of a rejected request in place of the problem document. The headers are set; the status is 429, or
   * one from 400 that it sets. If it throws, or sends nothing for 10 s, `onError` is called and the problem document sent.
   */
  onLimited?: (limited: Limited<Call>) => Own;
  /** Called with every decision, and with rejected preflights. It is not awaited, and its errors go to `onError`. */
  onDecision?: (decided: Decided<Call>) => void;
  /**
   * Which requests give their cost back when they are done: those that `"failed"` (an error, or a status from 400),
   * those that `"succeeded"`, or those that a function chooses. Default: none.
   */
  refundIf?: "failed" | "succeeded" | ((outcome: Outcome, ...call: Call) => boolean | PromiseLike<boolean>);
  /**
   * Called with errors: of `key`, `cost`, `skip` or the limiter, where `"allow"` lets the request through uncounted and
   * `"deny"` rejects it with 503; and of other callbacks. Default: the server's error handler, or a process warning.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a function that only logs is right too
  onError?: (error: unknown, ...call: Call) => "allow" | "deny" | undefined | void;
  /** Called with warnings, such as a proxy that `identity` does not name. Default: the important ones are process warnings. */
  onEvent?: (event: LimiterEvent) => void;
}

const KNOWN = [
  "policy",
  "policies",
  "limiter",
  "key",
  "cost",
  "identity",
  "headers",
  "skip",
  "preflight",
  "mode",
  "maxDelayMs",
  "onLimited",
  "onDecision",
  "refundIf",
  "onError",
  "onEvent",
];
const FUNCTIONS = ["key", "skip", "onLimited", "onDecision", "onError", "onEvent"] as const;
const MAX_TIMER_MS = 2 ** 31 - 1;
const POLICY_INSTEAD = 'policy in place of it, such as policy: "100/m"';
const HEADERS_INSTEAD = 'headers in place of it, such as headers: "draft-8"';

/** Names that other limiters have, and what stands for them here. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  store: "a limiter on it in place of it: limiter: createLimiter({ policy, store })",
  max: POLICY_INSTEAD,
  limit: POLICY_INSTEAD,
  windowMs: POLICY_INSTEAD,
  timeWindow: POLICY_INSTEAD,
  keyGenerator: "key in place of it",
  handler: "onLimited in place of it",
  message: "onLimited in place of it, which writes the body of rejected requests",
  statusCode: "onLimited in place of it, which may set the status of rejected requests",
  standardHeaders: HEADERS_INSTEAD,
  legacyHeaders: HEADERS_INSTEAD,
  skipSuccessfulRequests: 'refundIf: "succeeded" in place of it',
  skipFailedRequests: 'refundIf: "failed" in place of it',
  trustProxy: "identity: { trustedProxies } in place of it",
};

/** Refuses what can't work, before the first request comes. */
export function checkRateLimit<Call extends readonly unknown[], L>(options: RateLimitOptions<Call, L>): void {
  if (typeof options !== "object" || options === null) {
    throw optionError("invalid-option", "rateLimit", 'options, such as { policy: "100/m" }', options);
  }
  const foreign = Object.keys(options).find((name) => Object.hasOwn(ELSEWHERE, name));
  if (foreign !== undefined) throw optionError("unknown-option", foreign, ELSEWHERE[foreign] as string);
  checkOptions("rateLimit", options, KNOWN);
  for (const name of FUNCTIONS) {
    const given = options[name];
    if (given !== undefined && typeof given !== "function") {
      throw optionError("invalid-option", name, "a function", given);
    }
  }
  const { cost, mode, maxDelayMs, refundIf, key, identity } = options;
  if (typeof cost !== "function" && cost !== undefined) checkCost(cost);
  if (maxDelayMs !== undefined) checkWhole("maxDelayMs", maxDelayMs, 0, MAX_TIMER_MS);
  if (mode !== undefined && mode !== "enforce" && mode !== "shadow") {
    throw optionError("invalid-option", "mode", '"enforce" or "shadow"', mode);
  }
  const responder = ["failed", "succeeded", undefined] as unknown[];
  if (typeof refundIf !== "function" && !responder.includes(refundIf)) {
    throw optionError("invalid-option", "refundIf", '"failed", "succeeded" or a function', refundIf);
  }
  if (key !== undefined && identity !== undefined) {
    const expected =
      "key alone: it takes the place of identity. clientKey() of sluice/http tells the client inside of it";
    throw optionError("invalid-option", "identity", expected, identity);
  }
}
