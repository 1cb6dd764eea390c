/** Values that are there, or are promised. */

/** A value, or a promise of one. */
export type MaybePromise<T> = T | PromiseLike<T>;

/** Goes on with a value, now if it is there and later if it is promised. */
export function andThen<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return isPromise(value) ? value.then(next) : next(value);
}

/** Whether a value is promised. */
export function isPromise<T>(value: MaybePromise<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined)?.then === "function";
}
