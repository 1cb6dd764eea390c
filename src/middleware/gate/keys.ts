/** Determines the key that a request is charged to: that of the application's `key`, or that of the client. */
import { SluiceError } from "../../base/errors.ts";
import { isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { type Address, privateAddress } from "../../http/identity/address.ts";
import type { ReadHeader, Warn } from "../../http/identity/client-ip.ts";
import { identifier, UNIDENTIFIED } from "../../http/identity/client-key.ts";
import { presets } from "../../http/identity/presets.ts";
import { watchKeys } from "../../http/key-cardinality.ts";
import type { RequestContext } from "../../http/request-context.ts";
import type { RateLimitOptions } from "./options.ts";
import type { Reports } from "./reports.ts";
import type { HandlerArgs, RequestReader } from "./request-reader.ts";

/** The keys of requests. */
export interface Keys<Args extends HandlerArgs> {
  /** The key of a request: that of the application, or that of the client. */
  client(args: Args): MaybePromise<string>;
  /** The key of the request's IP address, regardless of credentials. */
  address(args: Args): string;
  /** The identity of the request's client by its parts, for rules. */
  readonly parts: KeyParts<Args>;
  /** The IP address of the request's client; `undefined` if it is unknown. */
  resolve(args: Args): Address | undefined;
  /** Whether that may be the address of a proxy, because `identity` is not set. */
  mayBeProxy(args: Args): boolean;
  /** The key of an IP address. */
  keyOf(address: Address): string;
  /** Called when an IP address has exhausted its budget: warns if the address is that of a proxy. */
  exhausted?(args: Args): void;
}

/** The parts of a client's identity: the members of a request's context. */
type KeyParts<Args extends HandlerArgs> = {
  [part in "ip" | "user" | "apiKey"]: ((args: Args) => ReturnType<RequestContext[part]>) & {
    readonly isProvided?: boolean;
  };
};

/** Validates `key` and `identity`, and returns the functions that apply them. */
export function keysOf<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  reader: RequestReader<Args>,
  reports: Reports<Args>,
): Keys<Args> {
  const { key, identity, limits, abuse } = options;
  const hasOwnKeys = key !== undefined || (identity === undefined && (limits?.every(({ key }) => key) ?? false));
  // Lists and penalties need the address also if the application has keys of its own.
  if ((!hasOwnKeys || abuse) && identity === undefined && reader.peerless) {
    const names = Object.keys(presets).join(", ");
    const instead = abuse ? "" : ", or set key";
    const message = `This runtime exposes no socket addresses. Set identity to the platform in front (one of ${names}) or to { trustedProxies }${instead}.`;
    throw new SluiceError("invalid-option", message, { option: "identity", expected: `one of ${names}` });
  }
  // Without a request, if the options are wrong.
  const warn: Warn = (message, args = [], code, details) => reports.warn(message, args as Args, code, details);
  // With keys of the application, the address is only needed for preflights, which may come without one.
  const identify = identifier(identity ?? (hasOwnKeys ? { unidentified: "share" } : "peer"), warn);
  const headerOf = (args: Args): ReadHeader => {
    return (name) => reader.header(args, name);
  };
  const address = (args: Args): string => {
    try {
      return identify.address(reader.peer(args), headerOf(args), args);
    } catch (error) {
      // A preflight has no credentials: an error would reject it where users are identified by token.
      if (error instanceof SluiceError && error.code === "unidentified") return UNIDENTIFIED;
      throw error;
    }
  };
  const watchProxy = identity === undefined ? proxyWatch(reader, warnUntrustedProxy(warn)) : undefined;
  const parts: KeyParts<Args> = {
    ip(args) {
      watchProxy?.(args);
      return identify.address(reader.peer(args), headerOf(args), args);
    },
    user: Object.assign((args: Args) => identify.user?.(headerOf(args), args), { isProvided: !!identify.user }),
    apiKey: Object.assign((args: Args) => identify.apiKey?.(headerOf(args), args), { isProvided: !!identify.apiKey }),
  };
  const resolve = (args: Args): Address | undefined => {
    watchProxy?.(args);
    return identify.resolve(reader.peer(args), headerOf(args), args);
  };
  const mayBeProxy = (args: Args): boolean => identity === undefined && proxyOf(reader, args) !== undefined;
  const { keyOf } = identify;
  if (hasOwnKeys) {
    const client = key ? watchedKey(key, options, reports) : address;
    return { client, address, parts, resolve, mayBeProxy, keyOf, exhausted: preflightWatch(reader, warn) };
  }
  return {
    address,
    parts,
    resolve,
    mayBeProxy,
    keyOf,
    client(args) {
      watchProxy?.(args);
      return identify.client(reader.peer(args), headerOf(args), args);
    },
  };
}

/** Calls a `key` function of the application, and warns about keys that do not distinguish clients. */
export function watchedKey<Args extends HandlerArgs>(
  key: (...args: Args) => MaybePromise<string>,
  { onEvent }: RateLimitOptions<Args, unknown>,
  reports: Reports<Args>,
): (args: Args) => MaybePromise<string> {
  const watch = watchKeys<Args>((message, args, code) => reports.warn(message, args, code), {
    of: "requests",
    isEager: onEvent !== undefined,
  });
  const watched = (key: string, args: Args): string => {
    watch(key, args);
    return key;
  };
  return (args) => {
    const own = key(...args);
    return isPromise(own) ? own.then((own) => watched(own, args)) : watched(own, args);
  };
}

function warnUntrustedProxy<Args>(warn: Warn): (proxy: string, args: Args) => void {
  return (proxy, args) => {
    const message =
      "Requests come through a proxy that identity does not name, so all of its clients share one bucket.";
    const details = ` Set identity: { trustedProxies: ["${proxy}"] }, or identity: "cloudflare" or another platform.`;
    warn(message, args, "SLUICE_UNTRUSTED_PROXY", details);
  };
}

/** Warns once if rejected preflights share a budget, because the proxies of their clients are unknown with `key`. */
function preflightWatch<Args extends HandlerArgs>(reader: RequestReader<Args>, warn: Warn): (args: Args) => void {
  const warnShared = (reason: string, args: Args): void => {
    const details = `: ${reason} share one budget. Answer preflights before rateLimit, or raise the option preflight.`;
    warn("A CORS preflight was rejected", args, "SLUICE_UNTRUSTED_PROXY", details);
  };
  const watchProxy = proxyWatch(reader, (proxy, args: Args) =>
    warnShared(`with key, all preflights through the proxy ${proxy}`, args),
  );
  let isReported = false;
  return (args) => {
    if (reader.peer(args) !== undefined) watchProxy(args);
    else if (!isReported) {
      isReported = true;
      warnShared("with key and without a socket, all preflights", args);
    }
  };
}

/** The first requests, whose headers are all checked; later one of 256 is, since a proxy may be added at any time. */
const PROXY_SAMPLE = 1000;

/** The address of a proxy that sent the request: a private one, with forwarding headers. */
function proxyOf<Args extends HandlerArgs>(reader: RequestReader<Args>, args: Args): string | undefined {
  if ((reader.header(args, "x-forwarded-for") ?? reader.header(args, "forwarded")) === undefined) return undefined;
  return privateAddress(reader.peer(args));
}

/** Calls `warn` once if requests come through a proxy with a private address. A public peer may have forged the header. */
function proxyWatch<Args extends HandlerArgs>(
  reader: RequestReader<Args>,
  warn: (proxy: string, args: Args) => void,
): (args: Args) => void {
  let count = 0;
  return (args) => {
    if (count < 0 || (++count > PROXY_SAMPLE && (count & 255) !== 0)) return;
    const proxy = proxyOf(reader, args);
    if (proxy === undefined) return;
    count = -1;
    warn(proxy, args);
  };
}
