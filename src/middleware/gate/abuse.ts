/** Connects the option `abuse` with a middleware, and charges its penalties where there are no rules. */
import { MAX_CHARGES } from "../../core/charge.ts";
import { optionError, SluiceError } from "../../core/errors.ts";
import { andThen, type MaybePromise } from "../../core/maybe-promise.ts";
import { UNIDENTIFIED } from "../../http/identity/client-key.ts";
import { type MountedAbuse, REQUEST_ABUSE, type ScreenedRequest } from "../../http/request-abuse.ts";
import {
  isResponse,
  type LimitStorage,
  REQUEST_RULES,
  type RequestCharges,
  type RequestPenalty,
  type RequestRules,
} from "../../http/request-charges.ts";
import type { RequestValues } from "../../http/request-values.ts";
import type { ComposableLimiter } from "../../limiter/limiter-part.ts";
import type { Keys } from "./keys.ts";
import type { LimiterLike, RateLimitOptions, RequestLimit } from "./options.ts";
import type { Reports } from "./reports.ts";
import { type ChargesFor, type JointCharges, PolicyLists, policyCount, type SingleCharge } from "./request-charges.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** The limiter of a middleware without rules, or the function that returns it. */
type LimiterSource<Args extends HandlerArgs> = NonNullable<RateLimitOptions<Args, unknown>["limiter"]>;

/** Throws if the value was not made by `abuse`. */
export function checkAbuse(abuse: unknown): void {
  if (typeof abuse === "object" && abuse !== null && REQUEST_ABUSE in abuse) return;
  const expected = "abuse prevention made by abuse() of sluice/abuse, such as abuse({ penalty: {} })";
  throw optionError("invalid-option", "abuse", expected, abuse);
}

/** Connects abuse prevention with a middleware; `undefined` without it. `limiter` is that of options without rules. */
export function mountAbuse<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  keys: Keys<Args>,
  reader: RequestReader<Args>,
  reports: Reports<Args>,
  limiter: LimiterSource<Args> | undefined,
): MountedAbuse<Args> | undefined {
  const { abuse, rules } = options;
  if (!abuse) return undefined;
  return abuse[REQUEST_ABUSE].mount({
    options,
    reader,
    parts: keys.parts,
    storage: rules ? (rules as RequestRules)[REQUEST_RULES].storage : storageOf(options, limiter),
    hasRules: rules !== undefined,
    address: (args) => keys.resolve(args),
    keyOf: (address) => keys.keyOf(address),
    report: (event, code, message, args) => reports.report(event, code, message, args),
    signalFailed: (error, args) => reports.callbackFailed("signals", error, args),
  });
}

/** The storage of the limits. */
function storageOf<Args extends HandlerArgs>(
  { limits = [] }: RateLimitOptions<Args, unknown>,
  limiter: LimiterSource<Args> | undefined,
): LimitStorage | undefined {
  const sources: readonly unknown[] = [limiter, ...limits.map((limit: RequestLimit<Args>) => limit.limiter)];
  const composable = sources.find((source) => typeof source === "object" && source !== null && isComposable(source));
  const part = (composable as ComposableLimiter | undefined)?.parts()[0];
  return part && { ...part.failurePolicy, store: part.port.store };
}

function isComposable(limiter: object): limiter is ComposableLimiter {
  return typeof (limiter as Partial<ComposableLimiter>).parts === "function";
}

/** Adds penalties to the charges of a middleware without rules. Every denial is a strike. */
export function penalizedCharges<Args extends HandlerArgs>(
  chargesFor: ChargesFor<Args>,
  penalties: readonly RequestPenalty[],
  source: LimiterSource<Args> | readonly RequestLimit<Args>[],
): ChargesFor<Args> {
  checkCount(source, penalties.length);
  const lists = new PolicyLists();
  return (args, screened) => {
    const { values } = screened as ScreenedRequest;
    return andThen(chargesFor(args), (charges) => {
      if (charges === undefined || isResponse(charges)) return charges;
      checkPenalizable((charges as Partial<SingleCharge>).limiter);
      return andThen(penaltyKeys(penalties, values), (keys): RequestCharges => {
        const own = charges as SingleCharge | JointCharges;
        const added = penalties.flatMap(({ limiter, isStruck }, i) => {
          const key = keys[i];
          if (key === undefined || key.includes(UNIDENTIFIED)) return [];
          return [{ limiter, key, cost: 1, isHeld: false, isPeeked: !isStruck }];
        });
        return added.length === 0 ? own : own.joined(added, lists);
      });
    });
  };
}

function penaltyKeys(
  penalties: readonly RequestPenalty[],
  values: RequestValues,
): MaybePromise<readonly (string | undefined)[]> {
  const keys: (string | undefined)[] = [];
  const collect = (from: number): MaybePromise<readonly (string | undefined)[]> => {
    const penalty = penalties[from];
    if (!penalty) return keys;
    const key = values.later(() => values.key(penalty.identities));
    return andThen(key, (key) => {
      keys.push(key);
      return collect(from + 1);
    });
  };
  return collect(0);
}

/** Limits and penalties are one joint charge. */
function checkCount<Args extends HandlerArgs>(
  source: LimiterSource<Args> | readonly RequestLimit<Args>[],
  penalties: number,
): void {
  const limiters = Array.isArray(source) ? source.map(({ limiter }: RequestLimit<Args>) => limiter) : [source];
  let count = penalties;
  for (const limiter of limiters) {
    if (typeof limiter !== "object" || limiter === null) count++;
    else {
      checkPenalizable(limiter as LimiterLike);
      count += policyCount(limiter as ComposableLimiter);
    }
  }
  if (count <= MAX_CHARGES) return;
  const expected = `at most ${MAX_CHARGES} policies, penalties included`;
  throw optionError("too-many-charges", "rateLimit", expected, count);
}

/** Only limiters of sluice can be charged together with a penalty. */
function checkPenalizable(limiter: LimiterLike | undefined): void {
  if (limiter === undefined || isComposable(limiter)) return;
  const message =
    "abuse with penalties or traps needs limiters of createLimiter, combine or a function that ends in RateLimiter, because other limiters (and hybridRateLimiter) can't be charged together with a penalty.";
  throw new SluiceError("invalid-limiter", message, { option: "limiter", expected: "a limiter of sluice" });
}
