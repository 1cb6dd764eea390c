/**
 * For the router of ws-kit: a limit on messages. Register it before `withZod()`, so that what is not valid is paid for.
 * Frames that the router can't read do not come here; a guard around its handlers sees them.
 */
import { checkCost, checkKey } from "../core/charge.ts";
import type { Decision, Denied } from "../core/decision.ts";
import { SluiceError } from "../core/errors.ts";
import { isPromise } from "../core/maybe-promise.ts";
import { checkOptions } from "../core/options.ts";
import type { LimitExceeded } from "./answers.ts";
import { quietly } from "./guard.ts";
import { keyPerUserPerType } from "./keys.ts";
import { checkFunction } from "./options.ts";

/** What is used of a limiter: any of sluice is one, and any of ws-kit. */
export interface WsKitLimiter {
  consume(key: string, cost: number): Promise<WsKitDecision>;
  consumeSync?(key: string, cost?: number): Decision;
  getPolicy(): { readonly capacity: number };
}

/** What is used of a decision. */
export type WsKitDecision =
  | { readonly allowed: true; readonly delayMs?: number }
  | {
      readonly allowed: false;
      readonly remaining: number;
      readonly retryAfterMs: number | null;
      readonly unavailable?: true;
    };

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
  /** Hears of each message that did not pass, once. Not awaited. */
  onLimitExceeded?: (info: LimitExceeded) => unknown;
}

/** A middleware of ws-kit. The client of a message that does not pass is told why, and when to try again. */
export function rateLimit<Context extends WsKitContext = WsKitContext>(
  options: WsKitOptions<Context>,
): (context: Context, next: () => Promise<void>) => Promise<void> {
  checkOptions("rateLimit", options, ["limiter", "key", "cost", "onLimitExceeded"]);
  const { limiter, key: keyOf = keyPerUserPerType, cost: costOf = () => 1, onLimitExceeded } = options;
  if (typeof limiter?.consume !== "function" || typeof limiter.getPolicy !== "function") {
    throw new SluiceError("invalid-limiter", "limiter", "a limiter", limiter);
  }
  for (const [name, value] of Object.entries({ key: keyOf, cost: costOf, onLimitExceeded })) checkFunction(name, value);
  const exceeded = quietly(onLimitExceeded);
  const last = new WeakMap<object, Promise<unknown>>();

  /** What is awaited of one connection ends in the order in which it began. */
  function inOrder<T>(connection: object, awaited: Promise<T>): Promise<T> {
    const before = last.get(connection);
    const turn = before
      ? before.then(
          () => awaited,
          () => awaited,
        )
      : awaited;
    last.set(connection, turn);
    return turn;
  }

  return async (context, next) => {
    const cost = costOf(context);
    try {
      checkCost(cost);
    } catch {
      return context.error("INVALID_ARGUMENT", "The cost of a message has to be a whole number >= 0.");
    }
    if (cost === 0) return next();
    const key = keyOf(context);
    checkKey(key);
    const asked = limiter.consumeSync ? limiter.consumeSync(key, cost) : limiter.consume(key, cost);
    const decision = isPromise(asked) ? await inOrder(context.ws, asked) : asked;
    if (!decision.allowed) return deny(context, key, cost, limiter.getPolicy().capacity, decision as Denied);
    if (decision.delayMs) await inOrder(context.ws, new Promise((resolve) => setTimeout(resolve, decision.delayMs)));
    return next();
  };

  function deny(context: Context, key: string, cost: number, capacity: number, denied: Denied): void {
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
