/**
 * The step that every server takes for a request: find its key and cost, decide, and turn the decision into headers. A
 * server's own file only translates. What can be decided at once is not awaited.
 */
import type { Decision, Denied } from "../../core/decision.ts";
import { optionError, SluiceError } from "../../core/errors.ts";
import { andThen, isPromise, type MaybePromise } from "../../core/maybe-promise.ts";
import { describeError } from "../../core/warnings.ts";
import {
  type HeaderFields,
  type HeaderOptions,
  headerWriter,
  type WriteHeaders,
} from "../../http/headers/rate-limit-headers.ts";
import { type Rejection, rejection } from "../../http/rejection.ts";
import type { PendingHeaders } from "../../http/response.ts";
import { type Keys, keysOf } from "./keys.ts";
import { limiterWatch } from "./limiter-watch.ts";
import { checkDecision, checkLimiter, errorFrom, limiterFrom, policiesOf } from "./limiters.ts";
import { deniedForDelay } from "./max-delay.ts";
import {
  checkRateLimit,
  type Decided,
  type Limited,
  type LimiterLike,
  type Outcome,
  type RateLimitOptions,
} from "./options.ts";
import { isPreflight, type PreflightBudget, preflightBudget } from "./preflight.ts";
import { type Callback, Reports } from "./reports.ts";
import type { RequestReader } from "./request-reader.ts";

/** The request goes on. */
export interface GatePass {
  readonly rejection?: undefined;
  /** What its response tells; nothing in shadow mode, or when the figures are not known. */
  readonly pendingHeaders: PendingHeaders | undefined;
  /** How long to hold it before. */
  readonly delayMs: number;
  /** Gives the cost back, if it should be; call it once the request is done. */
  readonly settle: ((outcome: Outcome) => Promise<void>) | undefined;
}

/** The request is answered with this. */
export interface GateReject<Call extends readonly unknown[]> {
  readonly rejection: Rejection;
  /** For `onLimited`; a rejected preflight has none, since no script can read its body. */
  readonly limited: Limited<Call> | undefined;
}

/** `undefined`: the request goes on and is not counted. */
export type GateResult<Call extends readonly unknown[]> = GatePass | GateReject<Call> | undefined;

/** What becomes of a request that could not be decided about: it goes on, is answered, or is the server's to deal with. */
type GateErrorAction = "allow" | Rejection | Error;

/** A gate for one middleware. */
export interface Gate<Call extends readonly unknown[]> {
  /** Decides about a request, at once where that is possible. */
  enter(call: Call): GateResult<Call> | Promise<GateResult<Call>>;
  /** What becomes of a request that could not be decided about. Never throws. */
  handleError(error: unknown, call: Call): GateErrorAction;
  /** Reports an error of a callback that does not affect the request. Never throws. */
  tellError(callback: Callback, error: unknown, call: Call): void;
  /** Reports a request that could not be checked and that no error handler of the server is called for. Never throws. */
  requestFailed(error: unknown): void;
}

const DEFAULT_MAX_DELAY_MS = 10_000;
/** Double mounts show up within the first requests. */
const MOUNT_SAMPLE = 1000;

/** Checks the options, and makes the gate. */
export function openGate<Call extends readonly unknown[], L>(
  options: RateLimitOptions<Call, L>,
  facts: RequestReader<Call>,
): Gate<Call> {
  checkRateLimit(options);
  // A copy: what was checked stays what it was.
  return new OpenGate({ ...options }, facts);
}

class OpenGate<Call extends readonly unknown[]> implements Gate<Call> {
  private readonly options: RateLimitOptions<Call, unknown>;
  private readonly facts: RequestReader<Call>;
  private readonly limiter: LimiterLike | ((...call: Call) => MaybePromise<LimiterLike>);
  private readonly keys: Keys<Call>;
  private readonly preflights: PreflightBudget | undefined;
  private readonly reports: Reports<Call>;
  private readonly watchLimiter: ((limiter: LimiterLike, key: string, call: Call) => void) | undefined;
  private readonly write: WriteHeaders | undefined;
  private readonly unit: string | undefined;
  private readonly shadow: boolean;
  private readonly maxDelayMs: number;
  /** Warnings of the header writer, which knows nothing of the request. */
  private readonly headerWarnings: string[] = [];
  /** The first requests, to find out whether one comes twice. */
  private seenRequests: WeakSet<object> | undefined;
  private mountSample: number = MOUNT_SAMPLE;

  constructor(options: RateLimitOptions<Call, unknown>, facts: RequestReader<Call>) {
    this.options = options;
    this.facts = facts;
    this.shadow = options.mode === "shadow";
    this.maxDelayMs = options.maxDelayMs ?? DEFAULT_MAX_DELAY_MS;
    const { headers } = options;
    const headerOptions = typeof headers === "string" || Array.isArray(headers) ? { mode: headers } : headers;
    const warn = (message: string): void => void this.headerWarnings.push(message);
    this.write = headerOptions === false ? undefined : headerWriter(headerOptions as HeaderOptions, warn);
    this.unit = headerOptions ? (headerOptions as HeaderOptions).unit : undefined;
    const reports = new Reports(options);
    this.reports = reports;
    this.keys = keysOf(options, facts, reports);
    this.preflights = preflightBudget(options.preflight);
    this.limiter = limiterFrom(options);
    if (typeof this.limiter === "object") this.checkRefund(this.limiter);
    else this.watchLimiter = limiterWatch((message, call, code) => reports.warn(message, call, code));
    if (!facts.repeatable) this.seenRequests = new WeakSet();
  }

  enter(call: Call): GateResult<Call> | Promise<GateResult<Call>> {
    const { preflights } = this;
    if (this.seenRequests) this.checkMounts(call[0] as object, call, this.seenRequests);
    const preflight = preflights && isPreflight(this.facts, call);
    const result = preflight
      ? andThen(preflight, (is) => (is ? this.enterPreflight(call, preflights) : this.enterCounted(call)))
      : this.enterCounted(call);
    return result as GateResult<Call> | Promise<GateResult<Call>>;
  }

  private enterCounted(call: Call): MaybePromise<GateResult<Call>> {
    const { skip } = this.options;
    return skip ? andThen(skip(...call), (skip) => (skip ? undefined : this.choose(call))) : this.choose(call);
  }

  handleError(error: unknown, call: Call): GateErrorAction {
    const { onError, onEvent } = this.options;
    // Servers take nothing thrown, or a text, for no error at all.
    let failed = error instanceof Error ? error : errorFrom(error);
    let wish: unknown;
    try {
      wish = onError?.(failed, ...call);
      if (isPromise(wish)) wish.then(undefined, (another) => this.reports.callbackFailed("onError", another, call));
    } catch (another) {
      failed = another instanceof Error ? another : errorFrom(another);
      this.reports.callbackFailed("onError", another, call);
    }
    if (this.shadow) {
      // Shadow mode rejects nothing. Report the error, so that it is not lost.
      if (onEvent && !onError) this.reports.warn(`a trial run failed: ${describeError(error)}`, call);
      else this.reports.requestFailed(failed);
      return "allow";
    }
    if (wish === "allow") return "allow";
    if (wish === "deny") return rejection(COULD_NOT_DECIDE, undefined, this.facts.header(call, "accept"), {});
    return failed;
  }

  tellError(callback: Callback, error: unknown, call: Call): void {
    this.reports.callbackFailed(callback, error, call);
  }

  requestFailed(error: unknown): void {
    this.reports.requestFailed(error);
  }

  private enterPreflight(call: Call, preflights: PreflightBudget): GateResult<Call> {
    const key = this.keys.address(call);
    const decision = preflights.consume(key);
    if (decision.allowed) return undefined;
    this.keys.exhausted?.(call);
    this.tellDecision({ call, key, decision });
    if (this.shadow) return undefined;
    const accept = this.facts.header(call, "accept");
    return { rejection: rejection(decision, preflights.getPolicy(), accept, {}), limited: undefined };
  }

  /** Warns if this middleware runs twice for one request. */
  private checkMounts(request: object, call: Call, seen: WeakSet<object>): void {
    const twice = seen.has(request);
    seen.add(request);
    if (twice || --this.mountSample === 0) this.seenRequests = undefined;
    if (!twice) return;
    const message =
      "One rateLimit middleware ran twice for a request and charged it twice. Mount it once, or call rateLimit() for each limit.";
    this.reports.warn(message, call, "SLUICE_MISUSE");
  }

  /** By which limiter, then whose budget, then how much: each step makes a function only if it has to wait. */
  private choose(call: Call): MaybePromise<GateResult<Call>> {
    const { limiter } = this;
    if (typeof limiter === "object") return this.identify(call, limiter);
    return andThen(limiter(...call), (chosen) => {
      this.checkRefund(checkLimiter(chosen));
      return this.identify(call, chosen);
    });
  }

  private identify(call: Call, limiter: LimiterLike): MaybePromise<GateResult<Call>> {
    const key = this.keys.client(call);
    return isPromise(key) ? key.then((key) => this.price(call, limiter, key)) : this.price(call, limiter, key);
  }

  private price(call: Call, limiter: LimiterLike, key: string): MaybePromise<GateResult<Call>> {
    const { cost = 1 } = this.options;
    if (typeof cost === "number") return this.ask(call, limiter, key, cost);
    return andThen(cost(...call), (cost) => this.ask(call, limiter, key, cost));
  }

  private ask(call: Call, limiter: LimiterLike, key: string, cost: number): MaybePromise<GateResult<Call>> {
    this.watchLimiter?.(limiter, key, call);
    const decision = limiter.consumeSync ? limiter.consumeSync(key, cost) : limiter.consume(key, cost);
    if (!isPromise(decision)) return this.passageOf(call, limiter, key, cost, checkDecision(decision));
    return decision.then((decision) => this.passageOf(call, limiter, key, cost, checkDecision(decision)));
  }

  private passageOf(
    call: Call,
    limiter: LimiterLike,
    key: string,
    cost: number,
    decision: Decision,
  ): MaybePromise<GateResult<Call>> {
    const { shadow, maxDelayMs } = this;
    if (decision.allowed && !shadow && (decision.delayMs ?? 0) > maxDelayMs) {
      // A queue took the request in, but it would be held for longer than anyone waits: it leaves the queue again.
      const denied = deniedForDelay(decision, cost, maxDelayMs);
      return this.refund(call, limiter, key, cost, decision).then(() =>
        this.stop({ call, key, decision: denied }, limiter),
      );
    }
    if (!decision.allowed && !shadow) return this.stop({ call, key, decision }, limiter);
    if (this.options.onDecision) this.tellDecision({ call, key, decision });
    const settle = this.settler(call, limiter, key, cost, decision);
    if (shadow) return { pendingHeaders: undefined, delayMs: 0, settle };
    const fields = this.fieldsOf(decision, policiesOf(limiter), key, call);
    const pendingHeaders = fields && !isEmpty(fields) ? { fields, exhausted: decision.remaining === 0 } : undefined;
    return { pendingHeaders, delayMs: decision.delayMs ?? 0, settle };
  }

  private stop(limited: Limited<Call>, limiter: LimiterLike): GateReject<Call> {
    const { call, key, decision } = limited;
    this.tellDecision(limited);
    const policies = policiesOf(limiter);
    const fields = this.fieldsOf(decision, policies, key, call) ?? {};
    const accept = this.facts.header(call, "accept");
    return { rejection: rejection(decision, policies, accept, fields, this.unit), limited };
  }

  private fieldsOf(
    decision: Decision,
    policies: ReturnType<typeof policiesOf>,
    key: string,
    call: Call,
  ): HeaderFields | undefined {
    const fields = this.write?.(decision, policies, { key });
    if (this.headerWarnings.length > 0) {
      for (const message of this.headerWarnings.splice(0)) this.reports.warn(message, call);
    }
    return fields;
  }

  private tellDecision(decided: Decided<Call>): void {
    const { onDecision } = this.options;
    if (onDecision) this.reports.run("onDecision", () => onDecision(decided), decided.call);
  }

  /** Gives the cost back when a request is done, if that is wanted, and once. */
  private settler(call: Call, limiter: LimiterLike, key: string, cost: number, decision: Decision): GatePass["settle"] {
    const { refundIf } = this.options;
    if (refundIf === undefined || !decision.allowed || cost === 0) return undefined;
    let settled = false;
    return async (outcome) => {
      if (settled) return;
      settled = true;
      try {
        const wanted = typeof refundIf === "function" ? await refundIf(outcome, ...call) : ended(outcome) === refundIf;
        if (wanted) await this.refund(call, limiter, key, cost, decision);
      } catch (error) {
        this.tellError("refundIf", error, call);
      }
    };
  }

  /** What the store did not count can't be given back to it. */
  private async refund(call: Call, limiter: LimiterLike, key: string, cost: number, decision: Decision): Promise<void> {
    if (decision.degraded) return;
    try {
      try {
        await limiter.refund?.(key, cost, decision);
      } catch (error) {
        // A limiter that wraps another one may have copied the decision: then it is refunded without it.
        if (!(error instanceof SluiceError && error.option === "decision")) throw error;
        await limiter.refund?.(key, cost);
      }
    } catch (cause) {
      const error =
        cause instanceof SluiceError
          ? cause
          : Object.assign(optionError("store-unavailable", "refund", "it to be taken back"), { cause });
      this.reports.emit({ type: "refund-lost", policy: decision.policy, cost, error }, call);
    }
  }

  private checkRefund(limiter: LimiterLike): void {
    if (this.options.refundIf === undefined || typeof limiter.refund === "function") return;
    throw optionError("invalid-limiter", "refundIf", "a limiter that has refund(key, cost)", limiter);
  }
}

/** Nobody knows what to say of the limit, so that nothing is said of it. */
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

function ended({ status, error, aborted }: Outcome): "failed" | "succeeded" | "aborted" {
  // An abandoned request often ends in an error: whatever the handler passed its signal to throws an AbortError.
  if (aborted) return "aborted";
  if (error !== undefined) return "failed";
  if (status === undefined) return "aborted";
  return status >= 400 ? "failed" : "succeeded";
}

function isEmpty(fields: HeaderFields): boolean {
  for (const _ in fields) return false;
  return true;
}
