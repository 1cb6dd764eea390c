/**
 * Counts CORS preflights. They carry no credentials, and a rejected one looks like a network error to a script, so they
 * are not charged to the caller's budget. Uncounted they would be a bypass, so they have a budget per IP address, and
 * deny lists and blocks apply to them.
 */

import { optionError } from "../../base/errors.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import type { Policy, ResolvedPolicy } from "../../core/policy.ts";
import type { SyncRateLimiter } from "../../core/rate-limiter.ts";
import { rejection } from "../../http/rejection.ts";
import type { DeniedPreflight, MountedAbuse } from "../../http/request-abuse.ts";
import type { RequestObserver } from "../../http/request-observer.ts";
import { memoryStore } from "../../memory/memory-store.ts";
import { limiterOwning } from "../../memory/owning-limiter.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";
import type { GateResult } from "./gate-result.ts";
import type { Keys } from "./keys.ts";
import { policyFrom } from "./limiters.ts";
import type { DecidedRequest, RateLimitOptions } from "./options.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** Without `Access-Control-Max-Age`, 50 browsers behind one IP address may each repeat ten preflights every 5 s. */
const DEFAULT_POLICY: Policy = { capacity: 500, tokensPerSecond: 50 };
const MAX_ADDRESSES = 10_000;
/** HTTP methods that scripts may use: not CONNECT and TRACE. */
const METHOD = /^(?!CONNECT$|TRACE$)[A-Z-]{3,20}$/;

/** The preflight budget of one middleware. Its table is allocated with the first preflight. */
export class PreflightBudget {
  private readonly policy: CompiledPolicy;
  private limiter: SyncRateLimiter | undefined;

  constructor(policy: CompiledPolicy) {
    this.policy = policy;
  }

  consume(key: string): Decision {
    this.limiter ??= limiterOwning(memoryStore({ maxKeys: MAX_ADDRESSES }), this.policy);
    return this.limiter.consumeSync(key);
  }

  getPolicy(): ResolvedPolicy | undefined {
    return this.limiter?.getPolicy();
  }
}

/** Creates the budget from the option; `undefined` if preflights are charged like any request. */
export function preflightBudget(
  preflight: RateLimitOptions<never, unknown>["preflight"] = DEFAULT_POLICY,
): PreflightBudget | undefined {
  if (preflight === "charge") return undefined;
  const isPolicy = typeof preflight === "string" || (typeof preflight === "object" && preflight !== null);
  if (!isPolicy || (preflight as string) === "skip") {
    const expected = 'a policy such as "50/s burst 500", or "charge"';
    throw optionError("invalid-option", "preflight", expected, preflight);
  }
  return new PreflightBudget(compilePolicy({ ...policyFrom("preflight", preflight), name: "preflight" }));
}

/** What preflights of one middleware need of its gate. */
interface PreflightGate<Args extends HandlerArgs> {
  readonly reader: RequestReader<Args>;
  readonly keys: Keys<Args>;
  readonly abuse: MountedAbuse<Args> | undefined;
  readonly observer: RequestObserver<Args> | undefined;
  readonly isShadow: boolean;
  callOnDecision(decided: DecidedRequest<Args>): void;
}

/** Decides about a preflight: by lists and blocks, then by the budget of its IP address. */
export function enterPreflight<Args extends HandlerArgs>(
  gate: PreflightGate<Args>,
  budget: PreflightBudget,
  args: Args,
): MaybePromise<GateResult<Args>> {
  const { abuse, keys, isShadow } = gate;
  const consume = (): GateResult<Args> => {
    const key = keys.address(args);
    const decision = budget.consume(key);
    if (decision.allowed) return undefined;
    keys.exhausted?.(args);
    return denied(gate, args, { key, decision, policy: budget.getPolicy() });
  };
  if (!abuse || isShadow) return consume();
  return andThen(abuse.enterPreflight(args), (found): MaybePromise<GateResult<Args>> => {
    if (!found) return consume();
    if ("status" in found) return { answer: found };
    const rejected = denied(gate, args, found);
    return abuse.delayBlocked(found.decision)?.then(() => rejected) ?? rejected;
  });
}

function denied<Args extends HandlerArgs>(
  { reader, observer, isShadow, callOnDecision }: PreflightGate<Args>,
  args: Args,
  { key, decision, policy }: DeniedPreflight,
): GateResult<Args> {
  callOnDecision({ args, key, decision });
  observer?.preflight(args, key, decision, !isShadow);
  if (isShadow) return undefined;
  return { rejection: rejection(decision, policy, reader.header(args, "accept"), {}), limited: undefined };
}

/** Headers that no browser sends with a preflight (Fetch standard, 4.8). */
const CREDENTIALS = ["authorization", "cookie"];

/** Whether a request is a preflight as browsers send it. A handler that ignores the method might process a body. */
export function isPreflight<Args extends HandlerArgs>(reader: RequestReader<Args>, args: Args): MaybePromise<boolean> {
  if (reader.method(args) !== "OPTIONS" || !reader.header(args, "origin")) return false;
  if (!METHOD.test(reader.header(args, "access-control-request-method") ?? "")) return false;
  if (CREDENTIALS.some((name) => reader.header(args, name) !== undefined)) return false;
  return andThen(reader.hasBody(args), (hasBody) => !hasBody);
}

/** The members of a Node request that show whether it has a body. */
interface NodeRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** HTTP/2 only. */
  readonly stream?: { readonly endAfterHeaders?: boolean };
}

/** Whether a Node request has a body. HTTP/2 requires no header for that, but Node has a flag. */
export function hasNodeBody({ headers, stream }: NodeRequest): boolean {
  if (stream) return stream.endAfterHeaders !== true;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}
