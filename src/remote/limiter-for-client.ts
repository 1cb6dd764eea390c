/** Creates limiters straight from a client or binding. Limiters on one client share a store, so that `combine` is one step. */
import { checkOptions, type OptionHints } from "../base/options.ts";
import { shared } from "../base/shared-state.ts";
import type { Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { Store } from "../core/store.ts";
import type { PolicyText } from "../policy/text-type.ts";
import { createLimiter } from "./create-limiter.ts";
import { FAILURE_OPTIONS, type FailureOptions } from "./failure-options.ts";

/** How the stores of one kind are created. */
export interface StoreKind<Client, Options extends object> {
  /** Name of the function that users call, for errors. Identifies the kind. */
  readonly where: string;
  /** Names of the store's options. */
  readonly options: readonly string[];
  create(client: Client, options: Options): Store;
  /** Options that belong to one call, such as those of a request. A store with other ones is created and not kept. */
  readonly perCall?: readonly string[];
  /** The value that an option is compared by, if it can be written in two ways. */
  normalize?(name: string, value: unknown): unknown;
}

/** A store that was created for a client. */
interface KnownStore {
  readonly where: string;
  readonly options: object;
  readonly store: Store;
}

/** Stores kept per client. Options with functions that are created per request would be new ones every time. */
const MAX_STORES = 16;

const IN_POLICY = 'It belongs to the policy: tokenBucket("5/s", { name: "login", prefix: "my-app" }).';
const HINTS: OptionHints = {
  name: IN_POLICY,
  prefix: IN_POLICY,
  share: IN_POLICY,
  keyPrefix: 'Set prefix in the policy: tokenBucket("5/s", { prefix: "my-app" }).',
};

/** The stores of every client, one for each set of options. */
const storesOf = /* @__PURE__ */ shared("storesOf", () => new WeakMap<object, readonly KnownStore[]>());

/** Creates a limiter for one policy. `options` are those of the store and of its failures. */
export function limiterForClient<Client extends object, Options extends object>(
  kind: StoreKind<Client, Options>,
  client: Client,
  policy: Policy | PolicyText,
  options: Options & FailureOptions,
): RateLimiter {
  checkOptions(kind.where, options, [...kind.options, ...FAILURE_OPTIONS], HINTS);
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const isStoreOption = ([name]: [string, unknown]) => kind.options.includes(name);
  const storeOptions = Object.fromEntries(given.filter(isStoreOption));
  const failureOptions = Object.fromEntries(given.filter((entry) => !isStoreOption(entry)));
  const store = storeFor(kind, client, storeOptions as Options);
  return createLimiter({ policy, store, ...failureOptions });
}

/** The store of a client with these options, created if there is none. */
function storeFor<Client extends object, Options extends object>(
  kind: StoreKind<Client, Options>,
  client: Client,
  options: Options,
): Store {
  const known = (typeof client === "object" && client !== null && storesOf.get(client)) || [];
  const ofKind = known.filter((one) => one.where === kind.where);
  const same = ofKind.find((one) => hasSame(kind, kind.options, one.options, options));
  if (same) return same.store;
  const store = kind.create(client, options);
  // Keep one store per set of options, whatever its per-call options are.
  const lasting = kind.options.filter((name) => !kind.perCall?.includes(name));
  const isKept = !ofKind.some((one) => hasSame(kind, lasting, one.options, options));
  if (isKept) storesOf.set(client, [...known.slice(1 - MAX_STORES), { where: kind.where, options, store }]);
  return store;
}

function hasSame<Client, Options extends object>(
  { normalize }: StoreKind<Client, Options>,
  names: readonly string[],
  a: object,
  b: object,
): boolean {
  const comparable = (options: object, name: string) => {
    const value = (options as Record<string, unknown>)[name];
    return normalize?.(name, value) ?? value;
  };
  return names.every((name) => comparable(a, name) === comparable(b, name));
}
