/** Finds out when a stream of values has ended: an async iterable, or an observable of tRPC. */
import { MAX_AFTER_DISCONNECT_MS } from "../gate/after-disconnect.ts";
import type { FinishCall } from "./call.ts";

/** The members of an observable that are used. */
interface Observable {
  subscribe(observer: Partial<Observer>): { unsubscribe(): void };
}

interface Observer {
  next(value: unknown): void;
  error(error: unknown): void;
  complete(): void;
}

/** tRPC reads a stream at once, or never: it refuses one that the client's link does not support. */
const MAX_UNREAD_MS = 10_000;

/**
 * Returns the stream with `finish` called when it ends, its reader stops, the client disconnects or it is never read;
 * `undefined` if the value is not a stream.
 */
export function watchStream(value: unknown, finish: FinishCall, signal: AbortSignal | undefined): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  if (Symbol.asyncIterator in value) return watchIterable(value as AsyncIterable<unknown>, finish, signal);
  if (typeof (value as Partial<Observable>).subscribe === "function")
    return watchObservable(value as Observable, finish);
  return undefined;
}

/** Not a generator: one that is stopped before its first value runs no `finally`. */
function watchIterable(
  iterable: AsyncIterable<unknown>,
  finishCall: FinishCall,
  signal: AbortSignal | undefined,
): AsyncIterable<unknown> {
  let isFinished = false;
  const finish: FinishCall = (error) => {
    isFinished = true;
    clearTimeout(unread);
    signal?.removeEventListener("abort", stop);
    return finishCall(error);
  };
  const unread = finishAfter(MAX_UNREAD_MS, finish);
  const stop = (): void => void finishAfter(MAX_AFTER_DISCONNECT_MS, finish);
  if (signal?.aborted) stop();
  else signal?.addEventListener("abort", stop, { once: true });
  return {
    [Symbol.asyncIterator](): AsyncIterator<unknown> {
      if (isFinished) throw new Error("The stream was not read in time, so its limits have been released.");
      clearTimeout(unread);
      const iterator = iterable[Symbol.asyncIterator]();
      return {
        async next() {
          let result: IteratorResult<unknown>;
          try {
            result = await iterator.next();
          } catch (error) {
            await finish(error);
            throw error;
          }
          if (result.done) await finish();
          return result;
        },
        async return(value) {
          try {
            return (await iterator.return?.(value)) ?? { done: true, value };
          } finally {
            await finish();
          }
        },
      };
    },
  };
}

function finishAfter(delayMs: number, finish: FinishCall): ReturnType<typeof setTimeout> {
  const timer = setTimeout(() => void finish(), delayMs);
  (timer as { unref?(): void }).unref?.();
  return timer;
}

function watchObservable(observable: Observable, finish: FinishCall): Observable {
  return {
    ...observable,
    subscribe(observer) {
      const subscription = observable.subscribe({
        ...observer,
        next: (value) => observer.next?.(value),
        error(error) {
          void finish(error);
          observer.error?.(error);
        },
        complete() {
          void finish();
          observer.complete?.();
        },
      });
      return {
        unsubscribe() {
          void finish();
          subscription.unsubscribe();
        },
      };
    },
  };
}
