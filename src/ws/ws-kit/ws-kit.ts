/**
 * Middleware for the router of ws-kit: a rate limit on messages. Register it before `withZod()` to charge invalid messages
 * too. Frames that the router can't parse do not reach middleware; guard its handlers to limit those.
 */

import { isPromise } from "../../base/maybe-promise.ts";
import { checkOptions, checkWhole } from "../../base/options.ts";
import { checkKey, isCost } from "../../core/charge.ts";
import type { Decision } from "../../core/decision.ts";
import { errorReporter, requireSync } from "../engine/callbacks.ts";
import { checkFunction, isLimiter, notALimiter } from "../engine/guard-config.ts";
import { keyPerUserPerType, watchedKey } from "../engine/keys.ts";
import { remainingWait } from "../engine/replies.ts";
import type { WsKitDecision, WsKitDenied } from "./decision.ts";
import { Exceeded, type ExceededOptions } from "./exceeded.ts";
import { FREE, MessageQueue, type TimedDecision, waitUntilDue } from "./message-queue.ts";
import { addSocketData } from "./socket-data.ts";

/** The part of a limiter that the middleware uses. Limiters of sluice and of ws-kit have it. */
export interface WsKitLimiter {
  /** Takes `cost` from the key's budget if it fits. */
  consume(key: string, cost: number): Promise<WsKitDecision>;
  /** The same without a promise. */
  consumeSync?(key: string, cost?: number): Decision;
  /** Returns the policy, whose capacity is the largest cost that fits. */
  getPolicy(): { readonly capacity: number };
}

/** The part of a socket of ws-kit that the middleware uses. */
export interface WsKitSocket {
  /** The state of the connection: a word in ws-kit, a number in the sockets that it wraps. */
  readonly readyState?: unknown;
  /** The data of the connection, for key and cost functions. On Bun it lacks what `assignData` added later. */
  // biome-ignore lint/suspicious/noExplicitAny: as in ws-kit, whose applications declare the data
  readonly data?: any;
  /** Closes the connection. */
  close?(code?: number, reason?: string): void;
}

/** The part of a ws-kit context that the middleware uses. */
export interface WsKitContext {
  /** The type of the message. */
  readonly type: string;
  /** The id of the connection. */
  readonly clientId: string;
  /** The socket of the connection. Its data is read by the key functions, if it has any. */
  readonly ws: WsKitSocket;
  /** The data of the connection. */
  readonly data: unknown;
  /** Sends an error message to the client. */
  error(
    code: "RESOURCE_EXHAUSTED" | "FAILED_PRECONDITION" | "INVALID_ARGUMENT" | "UNAVAILABLE",
    message?: string,
    details?: Record<string, unknown>,
    options?: { retryable?: boolean; retryAfterMs?: number },
  ): void;
}

/** The same as `WsKitContext`, under the name of the ws-kit proposal. @alias */
export type IngressContext = WsKitContext;

/** Options of `rateLimit`. */
export interface WsKitOptions<Context extends WsKitContext = WsKitContext> extends ExceededOptions<Context> {
  /** The limiter, of sluice or of ws-kit. */
  limiter: WsKitLimiter;
  /** Returns the key to charge. Default: `keyPerUserPerType`, which is per connection for clients without a user. */
  key?: (context: Context) => string;
  /** Returns the cost of a message, a whole number; 0 is free. Default: 1. */
  cost?: (context: Context) => number;
  /** Maximum number of messages of one connection that wait for a decision. Default: 1000. */
  maxQueued?: number;
  /** Called with errors of `onLimitExceeded` and `onExceeded`. Default: the first one is a process warning. */
  onError?: (error: unknown) => unknown;
}

const OPTIONS = [
  "limiter",
  "key",
  "cost",
  "maxQueued",
  "onExceeded",
  "closeAfter",
  "closeCodes",
  "onLimitExceeded",
  "onError",
];

/** Creates a ws-kit middleware that limits messages. Clients of rejected messages get an error with the time to wait. */
export function rateLimit<Context extends WsKitContext = WsKitContext>(
  options: WsKitOptions<Context>,
): (context: Context, next: () => Promise<void>) => Promise<void> {
  checkOptions("rateLimit", options, OPTIONS, {
    store: "Pass a limiter that uses the store instead: limiter: createLimiter({ policy, store }).",
    policy: "Pass a limiter with this policy instead: limiter: memoryRateLimiter(policy).",
  });
  const { limiter, key: givenKey = keyPerUserPerType, cost: costOf = () => 1, onLimitExceeded, onError } = options;
  const maxQueued = checkWhole("maxQueued", options.maxQueued ?? 1000, 1, 2 ** 31 - 1);
  if (!isLimiter(limiter)) {
    throw notALimiter("limiter", "a limiter", limiter);
  }
  const callbacks = { key: givenKey, cost: costOf, onLimitExceeded, onError };
  for (const [name, value] of Object.entries(callbacks)) checkFunction(name, value);
  const keyOf = watchedKey<Context>(givenKey);
  const exceeded = new Exceeded<Context>(options, errorReporter(onError));
  const queue = new MessageQueue();
  const isContextRead = options.key !== undefined || options.cost !== undefined;

  return async (context, next) => {
    if (exceeded.isClosed(context.ws)) return;
    if (isContextRead) addSocketData(context);
    const cost = requireSync("cost", costOf(context));
    if (!isCost(cost)) {
      if (!exceeded.sendsInvalid) return;
      const message = "The cost of a message must be a whole number >= 0.";
      return context.error("INVALID_ARGUMENT", message, {}, { retryable: false });
    }
    const key = cost === 0 ? "" : requireSync("key", keyOf(context));
    if (cost > 0) checkKey(key);
    const waiting = queue.length(context.ws);
    if (waiting >= maxQueued) {
      const observed = waiting + 1;
      const rejected = { type: "inflight", observed, limit: maxQueued, key, isClientFault: true } as const;
      if (!exceeded.enforce(context, rejected)) return;
      return context.error("RESOURCE_EXHAUSTED", "Too many messages at once.", {}, { retryable: true });
    }
    let timed: TimedDecision;
    try {
      const result = queue.inOrder(context.ws, cost === 0 ? FREE : consume(key, cost));
      timed = isPromise(result) ? await result : result;
    } catch (error) {
      const isSent = exceeded.enforce(context, { type: "rate", observed: cost, limit: 0, key, isClientFault: false });
      // Reply here: the router reports the error that is rethrown, but sends nothing to the client.
      if (isSent) context.error("UNAVAILABLE", "The limit can't be checked.", {}, { retryable: true });
      throw error;
    }
    if (exceeded.isClosed(context.ws)) return;
    const { decision, decidedAt } = timed;
    if (decision.allowed) return next();
    const retryAfterMs = remainingWait(decision.retryAfterMs, waiting > 0 ? decidedAt : undefined);
    reject(context, key, cost, { ...decision, retryAfterMs });
  };

  function consume(key: string, cost: number): TimedDecision | Promise<TimedDecision> {
    const decision = limiter.consumeSync ? limiter.consumeSync(key, cost) : limiter.consume(key, cost);
    return isPromise(decision) ? decision.then(waitUntilDue) : waitUntilDue(decision);
  }

  function reject(context: Context, key: string, cost: number, denied: WsKitDenied): void {
    const { remaining, retryAfterMs, unavailable } = denied;
    const { capacity } = limiter.getPolicy();
    const isClientFault = !unavailable && retryAfterMs !== null;
    const rejected = { type: "rate", observed: cost, limit: capacity, retryAfterMs, key, isClientFault } as const;
    if (!exceeded.enforce(context, rejected)) return;
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
