/**
 * Which address a request came from. Whatever stands in a header was written by somebody: it counts only when it was
 * written, or overwritten, by a proxy that is named as trusted. Exactly one header is read, never a chain of guesses.
 */
import { optionError } from "../../core/errors.ts";
import { checkOptions } from "../../core/options.ts";
import { emitProcessWarning, type WarningCode } from "../../core/warnings.ts";
import { type Address, isIn, parseAddress, parseRange, type Range } from "./address.ts";
import { entriesOfForwarded, entriesOfXForwardedFor, MAX_ENTRIES } from "./forwarded.ts";
import { type Preset, presets } from "./presets.ts";

/** Headers as `fetch` has them, or as Node has them. */
export type RequestHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** What is known of a request, whatever the server. */
export interface RequestFacts {
  /** The address at the other end of the socket. */
  peer?: string | undefined;
  headers: RequestHeaders;
}

/** Whom to believe about the client's address. */
export interface TrustOptions {
  /** The platform or proxy in front, which knows its header. Default: none. */
  preset?: Preset;
  /**
   * The proxies that may tell the client's address: addresses and ranges such as `10.0.0.0/8`, or how many there are.
   * A number believes whoever can reach the server; with a list, others are known by their own address. Default: none.
   */
  trustedProxies?: number | readonly string[];
  /** Where they tell it: `x-forwarded-for`, `forwarded`, or a header of one address. Default: `x-forwarded-for`. */
  header?: string;
}

/** `"peer"` believes nobody: the client is the other end of the socket. */
export type Trust = "peer" | Preset | TrustOptions;

/**
 * The client's address, in one spelling for all that mean the same; `undefined` when there is none. By default it is
 * the socket's peer, and no header is read.
 */
export function clientIp(facts: RequestFacts, trust: Trust = "peer"): string | undefined {
  const header = headerReader(facts);
  return locatorOf(trust)(facts.peer, header)?.toString();
}

/** Reads a header of the request at hand. */
export type ReadHeader = (name: string) => string | undefined;

/** Finds a client's address. `context` is passed on to `Warn`. */
export type Locate = (peer: string | undefined, header: ReadHeader, context?: unknown) => Address | undefined;

/** Reports a problem with the set-up, found while a request was handled. Without a code it is not worth a process warning. */
export type Warn = (message: string, context: unknown, code?: WarningCode) => void;

let warned = false;

/** For callers without a listener: once per process, since their options may be a new object with every call. */
export const warnProcess: Warn = (message, _context, code) => {
  if (!code || warned) return;
  warned = true;
  emitProcessWarning(code, message);
};

/** One way to read all kinds of headers. Lines of one name are joined, as HTTP allows. */
export function headerReader(facts: RequestFacts): ReadHeader {
  const headers = facts?.headers;
  // A request of Node, Express or Fastify has headers too, but its address would be missing.
  const isRequest = typeof facts === "object" && facts !== null && "socket" in facts && !("peer" in facts);
  if (typeof headers !== "object" || headers === null || isRequest) {
    const expected = "{ peer, headers }, such as { peer: request.socket.remoteAddress, headers: request.headers }";
    throw optionError("invalid-option", "facts", expected, facts);
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

/** The names of all options of trust. */
export const TRUST_OPTIONS: readonly string[] = ["preset", "trustedProxies", "header"];

const locatorOf = /* @__PURE__ */ remembering((trust: Trust): Locate => {
  if (typeof trust === "object" && trust !== null) checkOptions("trust", trust, TRUST_OPTIONS);
  return locator(trust);
});

/** Reads options once, however often they are used. */
export function remembering<O, T>(make: (options: O) => T): (options: O) => T {
  const byObject = new WeakMap<object, T>();
  const byName = new Map<string, T>();
  return (options) => {
    const known = typeof options === "string" ? byName : (byObject as { get(key: unknown): T | undefined });
    let found = known.get(options as string);
    if (found === undefined) {
      found = make(options);
      if (typeof options === "string") byName.set(options, found);
      else if (typeof options === "object" && options !== null) byObject.set(options, found);
    }
    return found;
  };
}

/** Checks whom to believe, and makes the function that does. */
export function locator(trust: Trust, warn: Warn = warnProcess): Locate {
  if (typeof trust === "string") return trust === "peer" ? parseAddress : locator({ preset: trust }, warn);
  if (typeof trust !== "object" || trust === null) {
    const expected = `${NAMES}, or { trustedProxies }: which proxies may tell the client's address`;
    throw optionError("invalid-option", "identity", expected, trust);
  }
  const { preset, trustedProxies } = trust;
  if (preset === undefined) {
    if (trustedProxies !== undefined) return through(trust.header ?? "x-forwarded-for", beliefOf(trustedProxies), warn);
    if (trust.header === undefined) return parseAddress;
    throw optionError("invalid-option", "trustedProxies", "the proxies that write this header", undefined);
  }
  if (!Object.hasOwn(presets, preset)) throw optionError("invalid-option", "preset", NAMES, preset);
  const { header, runsHere = () => false, ranges } = presets[preset];
  const name = trust.header ?? header;
  if (trustedProxies !== undefined) return through(name, beliefOf(trustedProxies), warn);
  if (runsHere()) return through(name, { proves: () => true, hops: 1 }, warn);
  if (ranges) return through(name, beliefOf(ranges), warn);
  if (presets[preset].runsHere) return parseAddress;
  const expected = `the addresses of the proxies beside preset ${preset}, such as ["10.0.0.0/8"], or how many there are`;
  throw optionError("invalid-option", "trustedProxies", expected, undefined);
}

const NAMES = `one of peer, ${Object.keys(presets).join(", ")}`;

/** When a header counts, and how far to the left. */
interface Belief {
  /** Whether the address is that of a trusted proxy. */
  proves(address: Address | undefined): boolean;
  /** How many proxies there are, where they are counted. */
  hops?: number;
}

function beliefOf(trusted: number | readonly string[]): Belief {
  if (typeof trusted === "number" && Number.isInteger(trusted) && trusted >= 1 && trusted <= MAX_ENTRIES) {
    return { proves: () => true, hops: trusted };
  }
  if (!Array.isArray(trusted) || trusted.length === 0) {
    const expected = 'a list of addresses and ranges such as ["10.0.0.0/8"], or the number of proxies, from 1 to 64';
    throw optionError("invalid-option", "trustedProxies", expected, trusted);
  }
  const ranges: Range[] = trusted.map((text: unknown) => parseRange("trustedProxies", text));
  return { proves: (address) => address !== undefined && isIn(ranges, address) };
}

/** The address that believed proxies tell in a header; the peer's own when they are not believed or tell none. */
function through(name: string, { proves, hops }: Belief, warn: Warn): Locate {
  const header = checkHeader("header", name);
  const entries =
    header === "x-forwarded-for" ? entriesOfXForwardedFor : header === "forwarded" ? entriesOfForwarded : undefined;
  let warned = false;
  return (peer, read, context) => {
    const nearest = parseAddress(peer);
    const field = proves(nearest) ? read(header) : undefined;
    if (field === undefined) return nearest;
    const missing = (): void => {
      if (warned) return;
      warned = true;
      const message = `A trusted proxy sent ${header} without the IP address of the client, so all of its clients share one bucket. Configure it to send the address.`;
      warn(message, context, "SLUICE_MISSING_CLIENT_ADDRESS");
    };
    if (entries) return walk(nearest, entries(field), proves, hops, missing);
    const address = parseAddress(field);
    if (!address) missing();
    return address ?? nearest;
  };
}

/**
 * From the right, step left while the address is trusted: the first that is not is the client. An entry that is no
 * address ends the walk at the last good one, which is a proxy: `missing` is called. Where proxies are counted, a chain
 * that is too short was not written by all of them.
 */
function walk(
  peer: Address | undefined,
  entries: readonly string[],
  proves: Belief["proves"],
  hops = Infinity,
  missing: () => void,
): Address | undefined {
  if (hops !== Infinity && entries.length < hops) return peer;
  let current = peer;
  for (const [i, entry] of entries.entries()) {
    const address = parseAddress(entry);
    if (!address) {
      missing();
      return current;
    }
    current = address;
    if (i + 1 === hops || !proves(address)) return current;
  }
  return current;
}

/** A name of a header, in lower case. */
export function checkHeader(option: string, name: unknown): string {
  if (typeof name === "string" && /^[a-z0-9-]+$/i.test(name)) return name.toLowerCase();
  throw optionError("invalid-option", option, "the name of a header, such as x-forwarded-for", name);
}
