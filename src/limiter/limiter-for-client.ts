/** A limiter straight from a client or binding: limiters on one of them share a store, so that `combine` is one step. */
import { checkOptions } from "../core/options.ts";
import type { Policy } from "../core/policy.ts";
import type { PolicyText } from "../core/policy-text.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import { FAILURE_OPTIONS, type FailureOptions } from "../resilience/failure-policy.ts";
import { createLimiter } from "./create-limiter.ts";

/** How the stores of one kind are made. */
export interface StoreKind<Client, Options extends object> {
  /** What users call, for errors. */
  readonly where: string;
  /** The names of the store's own options. */
  readonly options: readonly string[];
  make(client: Client, options: Options): Store;
  /** Options that belong to a call, such as those of a request: a store with others is made for it, and not kept. */
  readonly perCall?: readonly string[];
  /** What an option is compared by, where the same can be said in two ways. */
  same?(name: string, value: unknown): unknown;
}

/** A limiter for one policy. `options` are those of the store and of its failures. */
export function limiterForClient<Client extends object, Options extends object>(
  kind: StoreKind<Client, Options>,
  client: Client,
  policy: Policy | PolicyText,
  options: Options & FailureOptions,
): RateLimiter {
  checkOptions(kind.where, options, [...kind.options, ...FAILURE_OPTIONS]);
  const own: Record<string, unknown> = {};
  const failure: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined) (kind.options.includes(name) ? own : failure)[name] = value;
  }
  const sign = (name: string, value: unknown) => kind.same?.(name, value) ?? value;
  const same = (one: Record<string, unknown>) => (name: string) => sign(name, one[name]) === sign(name, own[name]);
  const known = (typeof client === "object" && client !== null && stores.get(client)) || [];
  let made = known.find((one) => one.kind === kind && kind.options.every(same(one.options)));
  if (!made) {
    made = { kind, options: own, store: kind.make(client, own as Options) };
    const lasting = kind.options.filter((name) => !kind.perCall?.includes(name));
    const likeIt = known.some((one) => one.kind === kind && lasting.every(same(one.options)));
    if (!likeIt) stores.set(client, [...known.slice(-MAX_STORES), made]);
  }
  return createLimiter({ policy, store: made.store, ...failure });
}

/** So many stores of one client are known: functions that are made anew for every request are new options every time. */
const MAX_STORES = 15;

/** The stores of every client, one for each set of options. */
const stores = new WeakMap<object, { kind: object; options: Record<string, unknown>; store: Store }[]>();
