/** Deadlines of the application's callbacks: one that never settles must not keep requests open. */
import { SluiceError } from "../../base/errors.ts";
import { isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { checkWhole } from "../../base/options.ts";
import { parseDuration } from "../../base/rate.ts";
import type { RateLimitOptions } from "./options.ts";
import type { HandlerArgs } from "./request-reader.ts";

const DEFAULT_DEADLINE_MS = 5000;
const MAX_DEADLINE_MS = 600_000;

/** Rejects a promise that does not settle in time. Returns other values as they are. `option` names the callback. */
export type WithDeadline = <T>(option: string, value: MaybePromise<T>) => MaybePromise<T>;

// biome-ignore lint/suspicious/noExplicitAny: callbacks of any type
type AnyFunction = (...args: any[]) => any;

/** Validates the deadline, and returns the function that applies it. */
export function deadlineOf({
  callbackDeadlineMs = DEFAULT_DEADLINE_MS,
}: Pick<RateLimitOptions<never, unknown>, "callbackDeadlineMs">): WithDeadline {
  const deadlineMs = checkWhole(
    "callbackDeadlineMs",
    parseDuration("callbackDeadlineMs", callbackDeadlineMs),
    1,
    MAX_DEADLINE_MS,
  );
  return (option, value) => (isPromise(value) ? settledInTime(option, value, deadlineMs) : value);
}

/** The options with callbacks that have a deadline. */
export function withDeadlines<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  withDeadline: WithDeadline,
): RateLimitOptions<Args, unknown> {
  const bound = <T>(option: string, callback: T): T => {
    if (typeof callback !== "function") return callback;
    const timed: AnyFunction = (...args) => withDeadline(option, (callback as AnyFunction)(...args));
    // A warning about rules looks at what the code of a fact reads.
    return Object.assign(timed, { toString: () => String(callback) }) as T;
  };
  /** The same for members of an object. */
  const boundMembers = <T extends object>(prefix: string, members: T, names: readonly string[]): T => {
    const copy = { ...members } as Record<string, unknown>;
    for (const name of names) {
      const member = (members as Record<string, unknown>)[name];
      // A method of a class is a member of the prototype, and may use the fields of the instance.
      const isMethod = typeof member === "function" && !Object.hasOwn(members, name);
      if (name in members) copy[name] = bound(`${prefix}${name}`, isMethod ? member.bind(members) : member);
    }
    return copy as T;
  };
  const { limits, facts, hold, identity } = options;
  const bounded = boundMembers("", options, ["key", "cost", "skip", "limiter"]);
  if (limits)
    bounded.limits = limits.map((limit, i) => boundMembers(`limits[${i}].`, limit, ["limiter", "key", "cost"]));
  if (typeof facts === "object" && facts !== null) bounded.facts = boundMembers("facts.", facts, Object.keys(facts));
  if (hold) bounded.hold = boundMembers("hold.", hold, ["estimate"]);
  // Values of other types are refused later.
  if (typeof identity === "object" && typeof identity?.apiKey === "object" && identity.apiKey !== null) {
    bounded.identity = { ...identity, apiKey: boundMembers("identity.apiKey.", identity.apiKey, ["verify"]) };
  }
  return bounded;
}

function settledInTime<T>(option: string, promise: PromiseLike<T>, deadlineMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    let isSettled = false;
    let timer: unknown;
    const settle = (): void => {
      isSettled = true;
      if (timer !== undefined) clearTimeout(timer as number);
    };
    promise.then(
      (value) => {
        settle();
        resolve(value);
      },
      (error) => {
        settle();
        reject(error);
      },
    );
    // A promise that was settled when it was returned has called back by then, and needs no timer.
    queueMicrotask(() => {
      if (isSettled) return;
      timer = setTimeout(() => reject(late(option, deadlineMs)), deadlineMs);
      // Don't keep the process alive.
      (timer as { unref?(): void }).unref?.();
    });
  });
}

function late(option: string, deadlineMs: number): SluiceError {
  const message = `${option} did not settle within ${deadlineMs} ms. Give what it awaits a timeout, or raise callbackDeadlineMs.`;
  return new SluiceError("callback-timeout", message, {
    option,
    expected: `a promise that settles within ${deadlineMs} ms`,
  });
}
