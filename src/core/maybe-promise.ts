/** Values that may be promises, without an await for those that are not. */

/** A value, or a promise of one. */
export type MaybePromise<T> = T | PromiseLike<T>;

/** Calls `next` with the value: at once, or when its promise resolves. */
export function andThen<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return isPromise(value) ? value.then(next) : next(value);
}

/** Whether a value is a promise. */
export function isPromise<T>(value: MaybePromise<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined)?.then === "function";
}
