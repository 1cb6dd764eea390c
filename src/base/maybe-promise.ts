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

/** Calls `next` with the result of `call`, or `onError` with its error, whether or not there is a promise. */
export function tryThen<T, R>(
  call: () => MaybePromise<T>,
  next: (value: T) => MaybePromise<R>,
  onError: (error: unknown) => MaybePromise<R>,
): MaybePromise<R> {
  let value: MaybePromise<T>;
  try {
    value = call();
  } catch (error) {
    return onError(error);
  }
  return isPromise(value) ? value.then(next, onError) : next(value);
}

/** The results of all calls: a promise if one of them is. A call that throws leaves no promise of another unhandled. */
export function allOf<T>(calls: readonly (() => MaybePromise<T>)[]): MaybePromise<T[]> {
  let failure: { readonly error: unknown } | undefined;
  const values = calls.map((call) => {
    try {
      return call();
    } catch (error) {
      failure ??= { error };
      return undefined as T;
    }
  });
  if (values.some(isPromise)) return Promise.all(failure ? [...values, Promise.reject(failure.error)] : values);
  if (failure) throw failure.error;
  return values as T[];
}
