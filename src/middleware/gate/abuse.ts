/** Connects the option `abuse` with a middleware. */

import { optionError } from "../../base/errors.ts";
import type { ComposableLimiter } from "../../core/part-charges.ts";
import { type MountedAbuse, REQUEST_ABUSE } from "../../http/request-abuse.ts";
import { type LimitStorage, REQUEST_RULES, type RequestRules } from "../../http/request-charges.ts";
import type { RequestObserver } from "../../http/request-observer.ts";
import type { WithDeadline } from "./callback-deadlines.ts";
import type { Keys } from "./keys.ts";
import type { RateLimitOptions } from "./options.ts";
import type { Reports } from "./reports.ts";
import { type JointCharges, PolicyLists, type SingleCharge } from "./request-charges.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** Throws if the value was not made by `abuse`. */
export function checkAbuse(abuse: unknown): void {
  if (typeof abuse === "object" && abuse !== null && REQUEST_ABUSE in abuse) return;
  throw optionError("invalid-option", "abuse", "made by abuse() of sluice/abuse", abuse);
}

/** Connects abuse prevention with a middleware; `undefined` without it. `limiter` is that of options without rules. */
export function mountAbuse<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  keys: Keys<Args>,
  reader: RequestReader<Args>,
  reports: Reports<Args>,
  limiter: RateLimitOptions<Args, unknown>["limiter"],
  observer: RequestObserver<Args> | undefined,
  withDeadline: WithDeadline,
): MountedAbuse<Args> | undefined {
  const { abuse, rules, limits = [] } = options;
  if (!abuse) return undefined;
  const limiters: readonly unknown[] = limiter ? [limiter] : limits.map((limit) => limit.limiter);
  const lists = new PolicyLists();
  return abuse[REQUEST_ABUSE].mount({
    options,
    reader,
    parts: keys.parts,
    observer,
    storage: rules
      ? (rules as RequestRules)[REQUEST_RULES].storage
      : storageOf(limiters, options.policy !== undefined || options.policies !== undefined),
    limiters: rules ? undefined : limiters,
    address: (args) => keys.resolve(args),
    mayBeProxy: (args) => keys.mayBeProxy(args),
    keyOf: (address) => keys.keyOf(address),
    join: (charges, added) => (charges as SingleCharge | JointCharges).joined(added, lists),
    report: (event, code, subject, message, args) => reports.report(event, code, subject, message, args),
    withDeadline,
    signalFailed: (error, args) => reports.callbackFailed("signals", error, args),
  });
}

/** The storage of the first limiter that has one. */
function storageOf(limiters: readonly unknown[], isPrivate: boolean): LimitStorage | undefined {
  for (const limiter of limiters) {
    const part = (limiter as Partial<ComposableLimiter>).parts?.()[0];
    if (part) return { ...part.context, store: part.engine.store, isPrivate };
  }
  return undefined;
}
