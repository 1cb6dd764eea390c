/** Finds out when a stream of values has ended: an async iterable, or an observable of tRPC. */
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

/** Returns the stream with `finish` called when it ends or its reader stops; `undefined` if the value is not a stream. */
export function watchStream(value: unknown, finish: FinishCall): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  if (Symbol.asyncIterator in value) return watchIterable(value as AsyncIterable<unknown>, finish);
  if (typeof (value as Partial<Observable>).subscribe === "function")
    return watchObservable(value as Observable, finish);
  return undefined;
}

/** Not a generator: one that is stopped before its first value runs no `finally`. */
function watchIterable(iterable: AsyncIterable<unknown>, finish: FinishCall): AsyncIterable<unknown> {
  return {
    [Symbol.asyncIterator](): AsyncIterator<unknown> {
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
