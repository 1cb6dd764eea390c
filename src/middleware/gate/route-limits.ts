/** The limits of an app whose routes may have options of their own, in place of those of the app. */
import { optionError } from "../../base/errors.ts";
import { checkRateLimitOptions, SOURCES } from "./check-options.ts";
import { limiterFrom } from "./limiters.ts";
import type { RateLimitOptions } from "./options.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** The options of an app: the limits of every route that has none of its own. */
export type AppOptions<Args extends HandlerArgs, Own, F extends string = string> = RateLimitOptions<Args, Own, F> & {
  /** `false`: only routes with options of their own are limited, and no limit is required here. Default: `true`. */
  global?: boolean;
};

/** The options of a route: `false` for no limit, `undefined` or `true` for the limits of the app. */
type RouteOptions<Args extends HandlerArgs, Own> = RateLimitOptions<Args, Own> | boolean | undefined;

/**
 * Returns a function that finds the limit of a route by its options, which `create` makes once for each object. A route
 * that names its own limits has them in place of the app's. One that does not, such as `{ cost: 5 }`, charges the same
 * buckets as the rest of the app.
 */
export function routeLimits<Args extends HandlerArgs, Own, Limit>(
  given: AppOptions<Args, Own>,
  create: (options: RateLimitOptions<Args, Own>) => Limit,
): (route: RouteOptions<Args, Own>) => Limit | undefined {
  const { global: isGlobal = true, ...options } = given ?? {};
  if (typeof isGlobal !== "boolean") throw optionError("invalid-option", "global", "a boolean", isGlobal);
  if (isGlobal || hasSource(options)) checkRateLimitOptions(given && options);
  else checkRateLimitOptions({ ...options, policy: "1/s" });
  const { policy, policies, ...others } = options;
  // One limiter for all routes: each `policy` would have buckets of its own.
  const defaults = (policy ?? policies) ? { ...others, limiter: limiterFrom(options) } : others;
  let appLimit = isGlobal ? create(defaults) : undefined;
  const limits = new WeakMap<object, Limit>();
  return (route) => {
    // Without `global`, a route may ask for the limits of the app, and throws if there are none.
    if (route === true) return (appLimit ??= create(defaults));
    if (route === undefined) return isGlobal ? appLimit : undefined;
    if (route === false) return undefined;
    if (typeof route !== "object" || route === null) {
      throw optionError("invalid-option", "rateLimit", "options, or false for no limit", route);
    }
    let limit = limits.get(route);
    if (!limit) limits.set(route, (limit = create(mergeOptions(defaults, route)) as Limit & {}));
    return limit;
  };
}

/** Options that can't be combined. */
const EXCLUSIVE = [
  ["key", "identity"],
  ["hold", "refundIf"],
] as const;
/** What rules define themselves. */
const REPLACED_BY_RULES = ["key", "cost", "hold", "refundIf"] as const;

/** The options of a route with those of the app for what it leaves out. */
function mergeOptions<Args extends HandlerArgs, Own>(
  defaults: RateLimitOptions<Args, Own>,
  route: RateLimitOptions<Args, Own>,
): RateLimitOptions<Args, Own> {
  const dropped: (keyof RateLimitOptions<Args, Own>)[] = [];
  if (hasSource(route)) dropped.push(...SOURCES, "facts");
  if (route.rules !== undefined) dropped.push(...REPLACED_BY_RULES);
  for (const [one, other] of EXCLUSIVE) {
    if (route[one] !== undefined) dropped.push(other);
    if (route[other] !== undefined) dropped.push(one);
  }
  const merged = { ...defaults };
  for (const name of dropped) delete merged[name];
  const given = { ...route };
  // An option that is undefined is left out.
  for (const name in given)
    if (given[name as keyof typeof given] === undefined) delete given[name as keyof typeof given];
  return { ...merged, ...given };
}

function hasSource<Args extends HandlerArgs, Own>(options: RateLimitOptions<Args, Own>): boolean {
  return SOURCES.some((name) => options[name] !== undefined);
}
