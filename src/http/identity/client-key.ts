/**
 * Derives the key of a client: a verified user, else the holder of a verified API key, else the IP address. The kind is
 * part of the key, so a user named 1.2.3.4 can't be mistaken for an address.
 */
import { copyKey } from "../../base/copy-key.ts";
import { optionError, SluiceError } from "../../base/errors.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { checkOptions, checkWhole } from "../../base/options.ts";
import { type Address, networkOf } from "./address.ts";
import { type ApiKeyOptions, apiKeyHolder } from "./api-key.ts";
import {
  type AddressResolver,
  addressResolver,
  cachedByOptions,
  headerReader,
  type ReadHeader,
  type RequestLike,
  TRUST_OPTIONS,
  type TrustOptions,
  type Warn,
  warnProcess,
} from "./client-ip.ts";
import { type JwtOptions, jwtSubject } from "./jwt.ts";
import type { Preset } from "./presets.ts";

/** How clients are identified. */
export interface IdentityOptions extends TrustOptions {
  /** Bits of an IPv6 address that identify one client, from 32 to 64: the size of a subscriber's network. Default: 56. */
  ipv6Prefix?: number;
  /** Identifies users by a verified JSON Web Token. Default: tokens are ignored. */
  jwt?: JwtOptions;
  /** Identifies clients by a verified API key. Default: API keys are ignored. */
  apiKey?: ApiKeyOptions;
  /** Whether a request without an IP address is an error, or shares one bucket with all others. Default: `"refuse"`. */
  unidentified?: "refuse" | "share";
}

/** How clients are identified: `"peer"` (the socket's address), the platform in front, or full options. */
export type Identity = "peer" | Preset | IdentityOptions;

/** Returns the key of a request's client. `context` is passed on to `Warn`. */
type Identify = (peer: string | undefined, header: ReadHeader, context?: unknown) => string | Promise<string>;

/** Returns the key of a request's IP address, regardless of credentials. */
type IdentifyAddress = (peer: string | undefined, header: ReadHeader, context?: unknown) => string;

/** Returns the key of a verified credential; `undefined` without one. */
type IdentifyCredential = (header: ReadHeader, context?: unknown) => MaybePromise<string | undefined>;

/** Identifies the client of a request, as a whole or by one part. */
export interface Identifier {
  /** The IP address itself; `undefined` if it is unknown. */
  readonly resolve: AddressResolver["resolve"];
  /** The key of an IP address, such as `ip:203.0.113.7`. */
  readonly keyOf: (address: Address) => string;
  /** By verified credentials, or by IP address. */
  readonly client: Identify;
  /** By IP address only. */
  readonly address: IdentifyAddress;
  /** By a verified token; `undefined` if tokens are ignored. */
  readonly user: IdentifyCredential | undefined;
  /** By a verified API key; `undefined` if API keys are ignored. */
  readonly apiKey: IdentifyCredential | undefined;
}

/** Returns the key of the client that sent a request, such as `ip:203.0.113.7`, `user:42` or `key:acme`. */
export async function clientKey(request: RequestLike, identity: Identity = "peer"): Promise<string> {
  const header = headerReader(request);
  return identifyFor(identity)(request.peer, header);
}

const identifyFor = /* @__PURE__ */ cachedByOptions((identity: Identity): Identify => identifier(identity).client);

/** Validates the identity options, and returns the functions that apply them. */
export function identifier(identity: Identity, warn: Warn = warnProcess): Identifier {
  const options: IdentityOptions = typeof identity === "object" && identity !== null ? identity : {};
  checkOptions("identity", options, [...TRUST_OPTIONS, "ipv6Prefix", "jwt", "apiKey", "unidentified"]);
  const resolver = addressResolver(identity, warn);
  const keyOf = addressKeys(options);
  const address = addressKey(resolver, keyOf);
  const { resolve } = resolver;
  const user = options.jwt === undefined ? undefined : jwtSubject(options.jwt, warn);
  const apiKey = options.apiKey === undefined ? undefined : apiKeyHolder(options.apiKey);
  if (!user && !apiKey) return { client: address, address, user, apiKey, resolve, keyOf };
  const client: Identify = async (peer, header, context) =>
    (await user?.(header, context)) ?? (await apiKey?.(header)) ?? address(peer, header, context);
  return { client, address, user, apiKey, resolve, keyOf };
}

/** Peers whose key is cached, so an address is parsed once per socket and not with every request. */
const MAX_CACHED_PEERS = 1000;
/** The key that all requests without an address share. No address is written like this. */
export const UNIDENTIFIED = "ip:unidentified";

/** Returns a function for the key of an address, or of a request without one. */
function addressKeys(options: IdentityOptions): (address: Address | undefined) => string {
  const { ipv6Prefix = 56, unidentified = "refuse" } = options;
  checkWhole("ipv6Prefix", ipv6Prefix, 32, 64);
  if (unidentified !== "refuse" && unidentified !== "share") {
    throw optionError("invalid-option", "unidentified", '"refuse" or "share"', unidentified);
  }
  return (address) => {
    if (address) return `ip:${networkOf(address, ipv6Prefix)}`;
    if (unidentified === "share") return UNIDENTIFIED;
    const message =
      'The request has no IP address to identify its client by. Set identity to the platform or the proxies in front, or to { unidentified: "share" }.';
    throw new SluiceError("unidentified", message, { option: "identity", expected: "the platform or the proxies" });
  };
}

function addressKey(resolver: AddressResolver, keyOf: (address: Address | undefined) => string): IdentifyAddress {
  if (resolver.readsHeaders) return (peer, header, context) => keyOf(resolver.resolve(peer, header, context));
  const keysByPeer = new Map<string, string>();
  return (peer, header) => {
    const found = keysByPeer.get(peer as string);
    if (found !== undefined || peer === undefined) return found ?? keyOf(undefined);
    const key = keyOf(resolver.resolve(peer, header));
    if (keysByPeer.size >= MAX_CACHED_PEERS) keysByPeer.clear();
    keysByPeer.set(copyKey(peer), key);
    return key;
  };
}
