/**
 * The step that every server takes for a request: find its charges, apply them, and turn the decision into headers or a
 * rejection. A server's own file only translates. Nothing is awaited unless a promise is returned.
 */

import { andThen, isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { describeError } from "../../base/warnings.ts";
import type { Decision, Denied } from "../../core/decision.ts";
import { type ResponseData, rejection } from "../../http/rejection.ts";
import type { MountedAbuse, ScreenedRequest } from "../../http/request-abuse.ts";
import { isResponse, type RequestCharges } from "../../http/request-charges.ts";
import { type RequestObserver, requestObserver } from "../../http/request-observer.ts";
import type { ResponseFields } from "../../http/response.ts";
import { mountAbuse } from "./abuse.ts";
import { deadlineOf, withDeadlines } from "./callback-deadlines.ts";
import { checkRateLimitOptions } from "./check-options.ts";
import { recordDecision } from "./decisions.ts";
import { GateHeaders } from "./gate-headers.ts";
import type { Gate, GateErrorAction, GatePass, GateReject, GateResult } from "./gate-result.ts";
import { endsTooEarly, RequestHolds } from "./holds.ts";
import { type Keys, keysOf } from "./keys.ts";
import { errorFrom, limiterFrom } from "./limiters.ts";
import { jointCharges } from "./limits.ts";
import { deniedForDelay } from "./max-delay.ts";
import type { DecidedRequest, RateLimitOptions } from "./options.ts";
import { beforeAwait, withRecordedPeers } from "./peers.ts";
import { enterPreflight, isPreflight, type PreflightBudget, preflightBudget } from "./preflight.ts";
import { Refunds } from "./refunds.ts";
import { type Callback, Reports } from "./reports.ts";
import type { ChargesFor } from "./request-charges.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";
import { ruleCharges } from "./rule-charges.ts";
import { singleCharge } from "./single-charge.ts";
import { recordUnhandled } from "./unhandled.ts";

export type { Gate, GatePass, GateReject, GateResult };

const DEFAULT_MAX_DELAY_MS = 10_000;
/** Requests checked for a middleware that is mounted twice, which shows within the first ones. */
const MOUNT_SAMPLE = 1000;

/** Validates the options, and creates the gate. */
export function openGate<Args extends HandlerArgs, Own>(
  options: RateLimitOptions<Args, Own>,
  reader: RequestReader<Args>,
): Gate<Args> {
  checkRateLimitOptions(options);
  // Its options are a copy, so later changes to the object don't bypass the validation.
  return new OpenGate(options, reader);
}

class OpenGate<Args extends HandlerArgs> implements Gate<Args> {
  private readonly options: RateLimitOptions<Args, unknown>;
  readonly reader: RequestReader<Args>;
  private readonly chargesFor: ChargesFor<Args>;
  readonly abuse: MountedAbuse<Args> | undefined;
  readonly observer: RequestObserver<Args> | undefined;
  readonly keys: Keys<Args>;
  private readonly preflights: PreflightBudget | undefined;
  private readonly reports: Reports<Args>;
  private readonly refunds: Refunds<Args>;
  private readonly holds: RequestHolds<Args>;
  private readonly headers: GateHeaders<Args>;
  readonly isShadow: boolean;
  private readonly maxDelayMs: number;
  /** The first requests, to detect one that enters twice. */
  private seenRequests: WeakSet<object> | undefined;
  private mountSample: number = MOUNT_SAMPLE;

  constructor(given: RateLimitOptions<Args, unknown>, givenReader: RequestReader<Args>) {
    const reader = withRecordedPeers(givenReader);
    const withDeadline = deadlineOf(given);
    const options = withDeadlines(given, withDeadline);
    this.options = options;
    this.observer = requestObserver(options.observer, reader);
    this.reader = reader;
    this.isShadow = options.mode === "shadow";
    this.maxDelayMs = options.maxDelayMs ?? DEFAULT_MAX_DELAY_MS;
    this.reports = new Reports(options);
    this.refunds = new Refunds(options, this.reports);
    this.holds = new RequestHolds(options, this.reports);
    this.headers = new GateHeaders(options, this.reports);
    this.keys = keysOf(options, reader, this.reports);
    this.preflights = preflightBudget(options.preflight);
    const { keys, reports } = this;
    const { rules, limits } = options;
    const limiter = rules || limits ? undefined : limiterFrom(options);
    this.abuse = mountAbuse(options, keys, reader, reports, limiter, this.observer, withDeadline);
    if (rules) this.chargesFor = ruleCharges(options, keys, reader, this.abuse);
    else if (limiter) this.chargesFor = singleCharge(options, keys, reports, limiter);
    else this.chargesFor = jointCharges(options, keys, reports);
    if (reader.endsEarly) for (const name of ["refundIf", "hold"] as const) if (options[name]) throw endsTooEarly(name);
    if (!reader.repeatable) this.seenRequests = new WeakSet();
  }

  enter(args: Args): GateResult<Args> | Promise<GateResult<Args>> {
    const { preflights } = this;
    if (this.seenRequests) this.checkMounts(args[0] as object, args, this.seenRequests);
    const preflight = preflights && isPreflight(this.reader, args);
    const result = preflight
      ? andThen(preflight, (is) => (is ? enterPreflight(this, preflights, args) : this.enterCounted(args)))
      : this.enterCounted(args);
    return result as GateResult<Args> | Promise<GateResult<Args>>;
  }

  handleError(error: unknown, args: Args): GateErrorAction {
    const { onError, onEvent } = this.options;
    // Some servers continue the request if undefined or a string is passed as the error.
    let failed = error instanceof Error ? error : errorFrom(error);
    let action: unknown;
    try {
      action = onError?.(failed, ...args);
      if (isPromise(action)) action.then(undefined, (another) => this.callbackFailed("onError", another, args));
    } catch (another) {
      failed = another instanceof Error ? another : errorFrom(another);
      this.callbackFailed("onError", another, args);
    }
    if (this.isShadow) {
      // Shadow mode rejects nothing, so no error handler reports the error.
      const details = `: ${describeError(error)}`;
      if (onEvent && !onError)
        this.reports.warn("A request could not be checked in shadow mode", args, undefined, details);
      else this.reports.requestFailed(failed);
      this.observer?.failed(true);
      return "allow";
    }
    this.observer?.failed(action === "allow");
    if (action === "allow") return "allow";
    recordUnhandled(args[0] as object);
    if (action === "deny") return rejection(COULD_NOT_DECIDE, undefined, this.reader.header(args, "accept"), {});
    return failed;
  }

  callbackFailed(callback: Callback, error: unknown, args: Args): void {
    this.reports.callbackFailed(callback, error, args);
  }

  requestFailed(error: unknown): void {
    this.reports.requestFailed(error);
  }

  /** Warns if this middleware runs twice for one request. */
  private checkMounts(request: object, args: Args, seen: WeakSet<object>): void {
    const isRepeated = seen.has(request);
    seen.add(request);
    if (isRepeated || --this.mountSample === 0) this.seenRequests = undefined;
    if (!isRepeated) return;
    const message =
      "One rateLimit middleware ran twice for a request and charged it twice. Mount it once, or call rateLimit() for each limit.";
    this.reports.warn(message, args, "SLUICE_MISUSE");
  }

  private enterCounted(args: Args): MaybePromise<GateResult<Args>> {
    const { skip } = this.options;
    if (!skip) return this.enterScreened(args);
    const skipped = beforeAwait(this.reader, args, skip(...args));
    return andThen(skipped, (isSkipped) => (isSkipped ? undefined : this.enterScreened(args)));
  }

  /** Lists, traps and solutions of challenges, which need no decision. */
  private enterScreened(args: Args): MaybePromise<GateResult<Args>> {
    if (!this.abuse) return this.applyCharges(args, undefined);
    const entered = beforeAwait(this.reader, args, this.abuse.enter(args));
    return andThen(entered, (screened): MaybePromise<GateResult<Args>> => {
      if (screened === "exempt") return undefined;
      if ("status" in screened) return this.isShadow ? undefined : { answer: screened };
      const { set } = screened;
      return set ? this.applyWithFields(args, screened, set) : this.applyCharges(args, screened);
    });
  }

  /** Sets fields on the response, whether the request continues, is rejected or can't be checked. */
  private async applyWithFields(args: Args, screened: ScreenedRequest, set: ResponseFields): Promise<GateResult<Args>> {
    try {
      return { ...((await this.applyCharges(args, screened)) ?? UNCOUNTED), set };
    } catch (error) {
      return { failure: { error }, set };
    }
  }

  private applyCharges(args: Args, screened: ScreenedRequest | undefined): MaybePromise<GateResult<Args>> {
    const charges = beforeAwait(this.reader, args, this.chargesFor(args, screened));
    return isPromise(charges)
      ? charges.then((charges) => this.decide(args, charges, screened))
      : this.decide(args, charges, screened);
  }

  private decide(
    args: Args,
    charges: RequestCharges | ResponseData | undefined,
    screened: ScreenedRequest | undefined,
  ): MaybePromise<GateResult<Args>> {
    if (!charges) return undefined;
    if (isResponse(charges)) return this.isShadow ? undefined : { answer: charges };
    if (!screened || charges.rules) return this.apply(args, charges, screened);
    const penalized = (this.abuse as MountedAbuse<Args>).penalize(charges, screened);
    return andThen(penalized, (charges) => this.apply(args, charges, screened));
  }

  private apply(
    args: Args,
    charges: RequestCharges,
    screened: ScreenedRequest | undefined,
  ): MaybePromise<GateResult<Args>> {
    const decision = this.observer ? this.observer.apply(charges, !this.isShadow) : charges.apply();
    return isPromise(decision)
      ? decision.then((decision) => this.gateResultFor(args, charges, decision, screened))
      : this.gateResultFor(args, charges, decision, screened);
  }

  private gateResultFor(
    args: Args,
    charges: RequestCharges,
    decision: Decision,
    screened: ScreenedRequest | undefined,
  ): MaybePromise<GateResult<Args>> {
    const { isShadow, maxDelayMs } = this;
    const { rules } = charges;
    if (rules && this.options.onDecision) {
      for (const { mode, rule, key, decision } of rules.counted)
        this.callOnDecision({ args, mode, rule, key, decision });
    }
    if (!isShadow) {
      if (!decision.allowed) {
        return screened ? this.rejectScreened(args, charges, decision, screened) : this.reject(args, charges, decision);
      }
      if ((decision.delayMs ?? 0) > maxDelayMs) {
        // The queue has accepted the request: remove it before the response asks for a retry.
        const denied = deniedForDelay(decision, maxDelayMs, (index) => charges.costAt(index));
        return this.refunds.refund(args, charges, decision).then(() => this.reject(args, charges, denied));
      }
    }
    this.observer?.decided(args, charges, decision, isShadow ? "shadow" : "enforce");
    // A rule in shadow mode may have no limit that is enforced.
    const isEnforced = !rules || rules.isEnforced;
    if (this.options.onDecision && isEnforced) this.callOnDecision(decidedRequest(args, charges, decision));
    recordDecision(args[0] as object, decision);
    const settleOnFinish = rules
      ? this.holds.onRulesFinish(args, rules, decision)
      : this.holds.onFinish(args, decision);
    const isHeld = rules ? rules.isOpen : settleOnFinish !== undefined;
    const onFinish =
      rules && settleOnFinish
        ? this.refunds.onRulesFinish(args, rules, settleOnFinish)
        : (settleOnFinish ?? this.refunds.onFinish(args, charges, decision));
    if (onFinish && this.reader.endsEarly) {
      // Chosen by a limiter function or by rules. A concurrency limit would limit nothing, for example. No handler: ends now.
      return onFinish({ status: undefined, aborted: true }).then(() => {
        throw endsTooEarly("A refund, a hold or a concurrency limit");
      });
    }
    if (isShadow) return { pendingHeaders: undefined, delayMs: 0, onFinish, isHeld };
    const fields = this.headers.fieldsFor(args, charges, decision);
    const pendingHeaders = fields && { fields, exhausted: decision.remaining === 0 };
    return { pendingHeaders, delayMs: decision.delayMs ?? 0, onFinish, isHeld };
  }

  /** Challenges the caller if that is what the limits ask for. Delays the response to a blocked key. */
  private rejectScreened(
    args: Args,
    charges: RequestCharges,
    decision: Denied,
    screened: ScreenedRequest,
  ): MaybePromise<GateResult<Args>> {
    const { rules } = charges;
    if (rules?.endsInChallenge(decision)) {
      this.callOnDecision(decidedRequest(args, charges, decision));
      this.observer?.decided(args, charges, decision, "challenge");
      return { answer: screened.challenge(rules.ruleOf(decision)) };
    }
    const rejected = this.reject(args, charges, decision);
    return this.abuse?.delayBlocked(decision)?.then(() => rejected) ?? rejected;
  }

  private reject(args: Args, charges: RequestCharges, decision: Denied): GateReject<Args> {
    const limited = decidedRequest(args, charges, decision);
    this.callOnDecision(limited);
    this.observer?.decided(args, charges, decision, "enforce");
    const fields = this.headers.fieldsFor(args, charges, decision) ?? {};
    const accept = this.reader.header(args, "accept");
    const { unit } = this.headers;
    return { rejection: rejection(decision, charges.policies, accept, fields, unit, limited.rule), limited };
  }

  readonly callOnDecision = (decided: DecidedRequest<Args>): void => {
    const { onDecision } = this.options;
    if (onDecision) this.reports.run("onDecision", () => onDecision(decided), decided.args);
  };
}

function decidedRequest<Args extends HandlerArgs, D extends Decision>(
  args: Args,
  charges: RequestCharges,
  decision: D,
): DecidedRequest<Args> & { readonly decision: D } {
  const key = charges.keyOf(decision);
  return charges.rules ? { args, key, decision, rule: charges.rules.ruleOf(decision) } : { args, key, decision };
}

/** The request continues and is not counted. */
const UNCOUNTED: GatePass = { pendingHeaders: undefined, delayMs: 0, onFinish: undefined, isHeld: false };

/** The decision for `"deny"` of `onError`. Its numbers are unknown, so `unavailable` keeps them out of the response. */
const COULD_NOT_DECIDE: Denied = {
  allowed: false,
  policy: "",
  limit: 0,
  remaining: 0,
  resetAfterMs: 0,
  nextAfterMs: 0,
  retryAfterMs: 1000,
  unavailable: true,
};
