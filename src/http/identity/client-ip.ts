/**
 * Finds the IP address of a client. A header counts only if a trusted proxy wrote or overwrote it, and exactly one
 * header is read: a list of candidates would let a client choose the one that no proxy overwrites.
 */
import { optionError, SluiceError } from "../../base/errors.ts";
import { checkOptions } from "../../base/options.ts";
import { emitWarningOnce, type WarningCode } from "../../base/warnings.ts";
import { type Address, isIn, parseAddress, parseRange, type Range } from "./address.ts";
import { entriesOfForwarded, entriesOfXForwardedFor, MAX_ENTRIES } from "./forwarded.ts";
import { type Preset, presets } from "./presets.ts";

/** Request headers: a `Headers` object, or a plain object as Node has it. */
export type RequestHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** The parts of a request that identify its client. */
export interface RequestLike {
  /** The IP address at the other end of the socket, such as `request.socket.remoteAddress`. Default: unknown. */
  peer?: string | undefined;
  /** The request headers. */
  headers: RequestHeaders;
}

/** Which proxies may report the client's IP address, and in which header. */
export interface TrustOptions {
  /** The platform or proxy in front, which determines the header. Default: none. */
  preset?: Preset;
  /**
   * The proxies in front: IP addresses and ranges such as `10.0.0.0/8`, or their number. With a list, a request from any
   * other peer is identified by the peer's own address. A number trusts every peer that can connect. Default: none.
   */
  trustedProxies?: number | readonly string[];
  /** The header they write: `x-forwarded-for`, `forwarded`, or one that holds a single address. Default: `x-forwarded-for`. */
  header?: string;
}

/** A trust rule by name or in full. `"peer"` trusts no header: the client is the other end of the socket. */
export type Trust = "peer" | Preset | TrustOptions;

/**
 * Returns the client's IP address in canonical form; `undefined` if it is unknown. By default that is the socket's peer,
 * and no header is read.
 */
export function clientIp(request: RequestLike, trust: Trust = "peer"): string | undefined {
  const header = headerReader(request);
  return resolverFor(trust).resolve(request.peer, header)?.toString();
}

/** Reads a header of one request by its lower-case name. */
export type ReadHeader = (name: string) => string | undefined;

/** Finds the IP address of a client. */
export interface AddressResolver {
  /** Returns the client's address. `context` is passed on to `Warn`. */
  resolve(peer: string | undefined, header: ReadHeader, context?: unknown): Address | undefined;
  /** Whether the result can depend on headers. If not, it depends on the peer alone and may be cached by it. */
  readonly readsHeaders: boolean;
}

/**
 * Reports a configuration problem found during a request. Without a code it is not worth a process warning. `details`, which
 * continue the message, may contain addresses and keys.
 */
export type Warn = (message: string, context: unknown, code?: WarningCode, details?: string) => void;

/** Warns once per process, for callers without a listener: they may create their options for each call. */
export const warnProcess: Warn = (message, _context, code) => {
  if (code) emitWarningOnce("client address", code, message);
};

/** Returns a reader for either kind of headers. Several lines of one header are joined, as HTTP allows. */
export function headerReader(request: RequestLike): ReadHeader {
  const headers = request?.headers;
  // A request of Node, Express or Fastify has headers as well, but its address would be missing.
  const isServerRequest =
    typeof request === "object" && request !== null && "socket" in request && !("peer" in request);
  if (typeof headers !== "object" || headers === null || isServerRequest) {
    const expected = "{ peer, headers }, such as { peer: request.socket.remoteAddress, headers: request.headers }";
    throw optionError("invalid-option", "request", expected, request);
  }
  if (isFetchHeaders(headers)) return (name) => headers.get(name) ?? undefined;
  return (name) => {
    const own = Object.hasOwn(headers, name) ? name : Object.keys(headers).find((one) => one.toLowerCase() === name);
    const value = own === undefined ? undefined : headers[own];
    return Array.isArray(value) ? value.join(",") : typeof value === "string" ? value : undefined;
  };
}

function isFetchHeaders(headers: RequestHeaders): headers is { get(name: string): string | null } {
  return typeof headers.get === "function";
}

/** The names of all members of `TrustOptions`. */
export const TRUST_OPTIONS: readonly string[] = ["preset", "trustedProxies", "header"];

const resolverFor = /* @__PURE__ */ cachedByOptions((trust: Trust): AddressResolver => {
  if (typeof trust === "object" && trust !== null) checkOptions("trust", trust, TRUST_OPTIONS);
  return addressResolver(trust);
});

/** Caches what is created from options, so validating them is not repeated with every call. */
export function cachedByOptions<O, T>(create: (options: O) => T): (options: O) => T {
  const byObject = new WeakMap<object, T>();
  const byName = new Map<string, T>();
  return (options) => {
    const cache = typeof options === "string" ? byName : (byObject as { get(key: unknown): T | undefined });
    let found = cache.get(options as string);
    if (found === undefined) {
      found = create(options);
      if (typeof options === "string") byName.set(options, found);
      else if (typeof options === "object" && options !== null) byObject.set(options, found);
    }
    return found;
  };
}

const PEER_RESOLVER: AddressResolver = { resolve: (peer) => parseAddress(peer), readsHeaders: false };

/** Validates a trust rule, and returns the resolver that applies it. */
export function addressResolver(trust: Trust, warn: Warn = warnProcess): AddressResolver {
  if (typeof trust === "string") return trust === "peer" ? PEER_RESOLVER : addressResolver({ preset: trust }, warn);
  if (typeof trust !== "object" || trust === null) {
    throw optionError("invalid-option", "identity", `${NAMES}, or an object such as { trustedProxies }`, trust);
  }
  const { preset, trustedProxies } = trust;
  if (preset === undefined) {
    if (trustedProxies !== undefined) {
      return proxyResolver(trust.header ?? "x-forwarded-for", trustRule(trustedProxies), warn);
    }
    if (trust.header === undefined) return PEER_RESOLVER;
    const message = "header has no effect without trustedProxies. Name the proxies that write this header.";
    throw new SluiceError("invalid-option", message, { option: "trustedProxies", expected: PROXIES });
  }
  if (!Object.hasOwn(presets, preset)) throw optionError("invalid-option", "preset", NAMES, preset);
  const { header, runsHere = () => false, ranges } = presets[preset];
  const name = trust.header ?? header;
  if (trustedProxies !== undefined) return proxyResolver(name, trustRule(trustedProxies), warn);
  if (runsHere()) return proxyResolver(name, { isTrusted: () => true, hops: 1 }, warn);
  if (ranges) return proxyResolver(name, trustRule(ranges), warn);
  if (presets[preset].runsHere) return PEER_RESOLVER;
  const message = `preset "${preset}" requires trustedProxies: the addresses of the proxies, such as ["10.0.0.0/8"], or their number.`;
  throw new SluiceError("invalid-option", message, { option: "trustedProxies", expected: PROXIES });
}

const NAMES = `one of peer, ${Object.keys(presets).join(", ")}`;
const PROXIES = `a list of addresses and ranges such as ["10.0.0.0/8"], or the number of proxies, from 1 to ${MAX_ENTRIES}`;

/** When a header is trusted, and how far to the left it is read. */
interface TrustRule {
  /** Whether the address belongs to a trusted proxy. */
  isTrusted(address: Address | undefined): boolean;
  /** The number of proxies, if they are counted and not listed. */
  readonly hops?: number;
}

function trustRule(trusted: number | readonly string[]): TrustRule {
  if (typeof trusted === "number" && Number.isInteger(trusted) && trusted >= 1 && trusted <= MAX_ENTRIES) {
    return { isTrusted: () => true, hops: trusted };
  }
  if (!Array.isArray(trusted) || trusted.length === 0) {
    throw optionError("invalid-option", "trustedProxies", PROXIES, trusted);
  }
  const ranges: Range[] = trusted.map((text: unknown) => parseRange("trustedProxies", text));
  return { isTrusted: (address) => address !== undefined && isIn(ranges, address) };
}

/** Resolves the address that trusted proxies report in a header, or that of the peer if there is none. */
function proxyResolver(name: string, rule: TrustRule, warn: Warn): AddressResolver {
  const header = checkHeader("header", name);
  const entriesOf =
    header === "x-forwarded-for" ? entriesOfXForwardedFor : header === "forwarded" ? entriesOfForwarded : undefined;
  let isReported = false;
  return {
    readsHeaders: true,
    resolve(peer, read, context) {
      const nearest = parseAddress(peer);
      const field = rule.isTrusted(nearest) ? read(header) : undefined;
      if (field === undefined) return nearest;
      const reportMissing = (): void => {
        if (isReported) return;
        isReported = true;
        const message = `A trusted proxy sent ${header} without the IP address of the client, so all of its clients share one bucket. Configure it to send the address.`;
        warn(message, context, "SLUICE_MISSING_CLIENT_ADDRESS");
      };
      if (entriesOf) return firstUntrusted(nearest, entriesOf(field), rule, reportMissing);
      const address = parseAddress(field);
      if (!address) reportMissing();
      return address ?? nearest;
    },
  };
}

/**
 * Right-to-left parsing: skips trusted proxies, nearest first, and returns the first address that is not trusted. An
 * entry that is not an address ends the search at the proxy before it, and `reportMissing` is called. If proxies are
 * counted, a list with fewer entries was not written by all of them, so the peer is returned.
 */
function firstUntrusted(
  peer: Address | undefined,
  entries: readonly string[],
  { isTrusted, hops = Infinity }: TrustRule,
  reportMissing: () => void,
): Address | undefined {
  if (hops !== Infinity && entries.length < hops) return peer;
  let current = peer;
  for (const [i, entry] of entries.entries()) {
    const address = parseAddress(entry);
    if (!address) {
      reportMissing();
      return current;
    }
    current = address;
    if (i + 1 === hops || !isTrusted(address)) return current;
  }
  return current;
}

/** Validates a header name, and returns it in lower case. */
export function checkHeader(option: string, name: unknown): string {
  if (typeof name === "string" && /^[a-z0-9-]+$/i.test(name)) return name.toLowerCase();
  throw optionError("invalid-option", option, "the name of a header, such as x-forwarded-for", name);
}
