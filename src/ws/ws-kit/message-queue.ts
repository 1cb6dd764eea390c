/** Keeps the messages of each connection in order while their decisions are pending. */
import { monotonicMs } from "../../base/clock.ts";
import { isPromise } from "../../base/maybe-promise.ts";
import { MAX_TIMER_MS } from "../engine/frame-queue.ts";
import type { WsKitDecision } from "./decision.ts";

/** A decision, and when it was made, as a monotonic time in ms. */
export interface TimedDecision {
  readonly decision: WsKitDecision;
  readonly decidedAt: number;
}

/** The decision on messages that cost nothing. */
export const FREE: TimedDecision = { decision: { allowed: true }, decidedAt: 0 };

/** Resolves results in the order in which they were added, per connection. */
export class MessageQueue {
  private readonly queues: WeakMap<object, { last: Promise<unknown>; length: number }> = new WeakMap();

  /** Number of messages of a connection that wait. */
  length(connection: object): number {
    return this.queues.get(connection)?.length ?? 0;
  }

  /** Returns the result once all earlier results of the connection have settled, without a promise if none is pending. */
  inOrder<T>(connection: object, result: T | Promise<T>): T | Promise<T> {
    const queue = this.queues.get(connection) ?? { last: Promise.resolve(), length: 0 };
    if (queue.length === 0 && !isPromise(result)) return result;
    // A rejection is rethrown in its turn. Until then it must not be reported as unhandled.
    if (isPromise(result)) result.then(undefined, () => {});
    const next = () => result;
    const turn = queue.last.then(next, next);
    const leave = () => queue.length--;
    queue.length++;
    queue.last = turn;
    this.queues.set(connection, queue);
    turn.then(leave, leave);
    return turn;
  }
}

/** Waits for the delay of an allowed decision, if it has one. */
export function waitUntilDue(decision: WsKitDecision): TimedDecision | Promise<TimedDecision> {
  const timed = { decision, decidedAt: monotonicMs() };
  const delayMs = decision.allowed ? decision.delayMs : 0;
  if (!delayMs) return timed;
  return new Promise((resolve) => setTimeout(() => resolve(timed), Math.min(delayMs, MAX_TIMER_MS)));
}
