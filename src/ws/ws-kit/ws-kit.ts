/**
 * For the router of ws-kit: a limit on messages. Register it before `withZod()`, so that what is not valid is paid for.
 * Frames that the router can't read do not come here; a guard around its handlers sees them.
 */
import { checkKey, isCost } from "../../core/charge.ts";
import { monotonicMs } from "../../core/clock.ts";
import type { Decision } from "../../core/decision.ts";
import { optionError } from "../../core/errors.ts";
import { isPromise } from "../../core/maybe-promise.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import { errorReporter, tell, toldAtOnce } from "../engine/callbacks.ts";
import { MAX_TIMER_MS } from "../engine/frame-queue.ts";
import { keyPerUserPerType } from "../engine/keys.ts";
import { checkFunction, isLimiter } from "../engine/options.ts";
import { type LimitExceeded, waitLeft } from "../engine/replies.ts";

/** What is used of a limiter: any of sluice is one, and any of ws-kit. */
export interface WsKitLimiter {
  consume(key: string, cost: number): Promise<WsKitDecision>;
  consumeSync?(key: string, cost?: number): Decision;
  getPolicy(): { readonly capacity: number };
}

/** What is used of a decision. */
export type WsKitDecision = { readonly allowed: true; readonly delayMs?: number } | WsKitDenied;

/** What is used of one that denies. */
export interface WsKitDenied {
  readonly allowed: false;
  readonly remaining: number;
  readonly retryAfterMs: number | null;
  readonly unavailable?: true;
}

/** What is used of a context. */
export interface WsKitContext {
  readonly type: string;
  readonly clientId: string;
  /** The connection. */
  readonly ws: object;
  readonly data: unknown;
  error(
    code: "RESOURCE_EXHAUSTED" | "FAILED_PRECONDITION" | "INVALID_ARGUMENT" | "UNAVAILABLE",
    message?: string,
    details?: Record<string, unknown>,
    options?: { retryable?: boolean; retryAfterMs?: number },
  ): void;
}

/** A limit on the messages of a router. */
export interface WsKitOptions<Context extends WsKitContext = WsKitContext> {
  /** Who decides. */
  limiter: WsKitLimiter;
  /** The key that is charged. Default: `keyPerUserPerType`; who is not known counts by connection. */
  key?: (context: Context) => string;
  /** What a message costs: a whole number; 0 is free. Default: 1. */
  cost?: (context: Context) => number;
  /** The most messages of one connection that wait for a decision. Default: 1000. */
  maxQueued?: number;
  /** Hears of each message that did not pass, once. Not awaited; what it throws goes to `onError`. */
  onLimitExceeded?: (info: LimitExceeded) => unknown;
  /** Hears what `onLimitExceeded` throws. */
  onError?: (error: unknown) => unknown;
}

/** A middleware of ws-kit. The client of a message that does not pass is told why, and when to try again. */
export function rateLimit<Context extends WsKitContext = WsKitContext>(
  options: WsKitOptions<Context>,
): (context: Context, next: () => Promise<void>) => Promise<void> {
  checkOptions("rateLimit", options, ["limiter", "key", "cost", "maxQueued", "onLimitExceeded", "onError"]);
  const { limiter, key: keyOf = keyPerUserPerType, cost: costOf = () => 1, onLimitExceeded, onError } = options;
  const maxQueued = checkWhole("maxQueued", options.maxQueued ?? 1000, 1, 2 ** 31 - 1);
  if (!isLimiter(limiter)) {
    throw optionError("invalid-limiter", "limiter", "a limiter", limiter);
  }
  const functions = { key: keyOf, cost: costOf, onLimitExceeded, onError };
  for (const [name, value] of Object.entries(functions)) checkFunction(name, value);
  const reportError = errorReporter(onError);
  const lines = new WeakMap<object, { last: Promise<unknown>; length: number }>();

  /** Messages of one connection go on in the order in which they came, whatever each of them waits for. */
  function inTurn<T>(connection: object, awaited: T | Promise<T>): T | Promise<T> {
    const line = lines.get(connection) ?? { last: Promise.resolve(), length: 0 };
    if (line.length === 0 && !isPromise(awaited)) return awaited;
    // What fails before its turn is thrown in its turn, and is nobody's unhandled rejection until then.
    if (isPromise(awaited)) awaited.then(undefined, () => {});
    const go = () => awaited;
    const turn = line.last.then(go, go);
    const leave = () => line.length--;
    line.length++;
    line.last = turn;
    lines.set(connection, line);
    turn.then(leave, leave);
    return turn;
  }

  return async (context, next) => {
    const cost = toldAtOnce("cost", costOf(context));
    if (!isCost(cost)) {
      const message = "The cost of a message has to be a whole number >= 0.";
      return context.error("INVALID_ARGUMENT", message, {}, { retryable: false });
    }
    const key = cost === 0 ? "" : toldAtOnce("key", keyOf(context));
    if (cost > 0) checkKey(key);
    const waiting = lines.get(context.ws)?.length ?? 0;
    if (waiting >= maxQueued) {
      exceeded({
        type: "inflight",
        observed: waiting + 1,
        limit: maxQueued,
        id: context.clientId,
        key,
        action: "send",
      });
      return context.error("RESOURCE_EXHAUSTED", "Too many messages at once.", {}, { retryable: true });
    }
    let told: Told;
    try {
      const turn = inTurn(context.ws, cost === 0 ? FREE : ask(key, cost));
      told = isPromise(turn) ? await turn : turn;
    } catch (error) {
      exceeded({ type: "rate", observed: cost, limit: 0, id: context.clientId, key, action: "send" });
      // The router hears of it as well, and tells the client nothing.
      context.error("UNAVAILABLE", "The limit can't be checked.", {}, { retryable: true });
      throw error;
    }
    if (isClosed(context.ws)) return;
    const { decision, at } = told;
    if (decision.allowed) return next();
    const retryAfterMs = waitLeft(decision.retryAfterMs, waiting > 0 ? at : undefined);
    deny(context, key, cost, limiter.getPolicy().capacity, { ...decision, retryAfterMs });
  };

  function ask(key: string, cost: number): Told | Promise<Told> {
    const asked = limiter.consumeSync ? limiter.consumeSync(key, cost) : limiter.consume(key, cost);
    return isPromise(asked) ? asked.then(whenDue) : whenDue(asked);
  }

  function exceeded(info: LimitExceeded): void {
    tell(onLimitExceeded, reportError, info);
  }

  function deny(context: Context, key: string, cost: number, capacity: number, denied: WsKitDenied): void {
    const { remaining, retryAfterMs, unavailable } = denied;
    exceeded({
      type: "rate",
      observed: cost,
      limit: capacity,
      retryAfterMs,
      id: context.clientId,
      key,
      action: "send",
    });
    if (retryAfterMs === null) {
      const details = { cost, capacity };
      context.error("FAILED_PRECONDITION", "This costs more than the limit.", details, { retryable: false });
      return;
    }
    const details = { cost, capacity, remaining };
    const options = { retryable: true, retryAfterMs };
    if (unavailable) context.error("UNAVAILABLE", "The limit can't be checked.", details, options);
    else context.error("RESOURCE_EXHAUSTED", "Too many messages.", details, options);
  }
}

/** A decision, and when it was made. */
interface Told {
  readonly decision: WsKitDecision;
  readonly at: number;
}

const FREE: Told = { decision: { allowed: true }, at: 0 };

/** Whether nobody is there any more. ws-kit says so in words, and what it wraps in numbers. */
function isClosed({ readyState }: { readyState?: unknown }): boolean {
  return readyState === "CLOSING" || readyState === "CLOSED" || readyState === 2 || readyState === 3;
}

/** The decision, when its time has come. */
function whenDue(decision: WsKitDecision): Told | Promise<Told> {
  const told = { decision, at: monotonicMs() };
  const delayMs = decision.allowed ? decision.delayMs : 0;
  if (!delayMs) return told;
  return new Promise((resolve) => setTimeout(() => resolve(told), Math.min(delayMs, MAX_TIMER_MS)));
}
