/**
 * The key of a client's bucket: a verified user, else the holder of a verified API key, else the address. The kind is
 * part of the key, so that a user who is called 1.2.3.4 is not an address.
 */
import { copyKey } from "../../core/copy-key.ts";
import { optionError } from "../../core/errors.ts";
import { checkOptions, checkWhole } from "../../core/options.ts";
import { type Address, networkOf, parseAddress } from "./address.ts";
import { type ApiKeyOptions, apiKeyHolder } from "./api-key.ts";
import {
  headerReader,
  locator,
  type ReadHeader,
  type RequestFacts,
  remembering,
  TRUST_OPTIONS,
  type TrustOptions,
  type Warn,
  warnProcess,
} from "./client-ip.ts";
import { type JwtOptions, jwtSubject } from "./jwt.ts";
import type { Preset } from "./presets.ts";

/** How a client is told from others. */
export interface IdentityOptions extends TrustOptions {
  /** How many bits of an IPv6 address are one client, from 32 to 64: what one subscriber is given. Default: 56. */
  ipv6Prefix?: number;
  /** Users by their verified token. Default: nobody is known by a token. */
  jwt?: JwtOptions;
  /** Machines by their verified API key. Default: nobody is known by a key. */
  apiKey?: ApiKeyOptions;
  /** What becomes of a request without an address: an error, or one bucket for all of them. Default: `"refuse"`. */
  unidentified?: "refuse" | "share";
}

/** Whom to believe, by name or in full. `"peer"` is the other end of the socket. */
export type Identity = "peer" | Preset | IdentityOptions;

/** The key of a request's client. `context` is passed on to `Warn`. */
export type Identify = (peer: string | undefined, header: ReadHeader, context?: unknown) => string | Promise<string>;

/** The key of the IP address that a request came from, whatever credentials it has. */
type IdentifyAddress = (peer: string | undefined, header: ReadHeader, context?: unknown) => string;

/** The key of the client that a request came from, such as `ip:203.0.113.7`, `user:42` or `key:acme`. */
export async function clientKey(facts: RequestFacts, identity: Identity = "peer"): Promise<string> {
  const header = headerReader(facts);
  return identifierOf(identity)(facts.peer, header);
}

const identifierOf = /* @__PURE__ */ remembering((identity: Identity): Identify => identifier(identity).client);

/** Validates the identity options. Returns functions that identify a client by verified credentials, or by IP address only. */
export function identifier(
  identity: Identity,
  warn: Warn = warnProcess,
): { client: Identify; address: IdentifyAddress } {
  const options: IdentityOptions = typeof identity === "object" && identity !== null ? identity : {};
  checkOptions("identity", options, [...TRUST_OPTIONS, "ipv6Prefix", "jwt", "apiKey", "unidentified"]);
  const address = addressKey(identity, options, warn);
  const { jwt, apiKey } = options;
  const user = jwt === undefined ? undefined : jwtSubject(jwt, warn);
  const holder = apiKey === undefined ? undefined : apiKeyHolder(apiKey);
  if (!user && !holder) return { client: address, address };
  return {
    address,
    client: async (peer, header, context) =>
      (await user?.(header, context)) ?? (await holder?.(header)) ?? address(peer, header, context),
  };
}

/** Names of addresses that are remembered, so that a socket's address is read once and not with every request. */
const REMEMBERED = 1000;
/** What all share who have no address. No address is spelled like this. */
export const UNIDENTIFIED = "ip:unidentified";

function addressKey(identity: Identity, options: IdentityOptions, warn: Warn): IdentifyAddress {
  const locate = locator(identity, warn);
  const { ipv6Prefix = 56, unidentified = "refuse" } = options;
  checkWhole("ipv6Prefix", ipv6Prefix, 32, 64);
  if (unidentified !== "refuse" && unidentified !== "share") {
    throw optionError("invalid-option", "unidentified", '"refuse" or "share"', unidentified);
  }
  const keyOf = (address: Address | undefined): string => {
    if (address) return `ip:${networkOf(address, ipv6Prefix)}`;
    if (unidentified === "share") return UNIDENTIFIED;
    const expected =
      'an address of the client, but the request has none: name the platform or the proxies in front, or say unidentified: "share"';
    throw optionError("unidentified", "identity", expected);
  };
  if (locate !== parseAddress) return (peer, header, context) => keyOf(locate(peer, header, context));
  const names = new Map<string, string>();
  return (peer) => {
    const found = names.get(peer as string);
    if (found !== undefined || peer === undefined) return found ?? keyOf(undefined);
    const key = keyOf(parseAddress(peer));
    if (names.size >= REMEMBERED) names.clear();
    names.set(copyKey(peer), key);
    return key;
  };
}
