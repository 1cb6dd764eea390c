/**
 * Parses and compares IP addresses by their bits. Two spellings of one address must be one client, and no spelling may
 * be taken for another address.
 */
import ipaddr from "ipaddr.js";
import { optionError, SluiceError } from "../../base/errors.ts";

/** An IPv4 address, or an IPv6 address that does not embed an IPv4 one. Opaque outside of this file. */
export interface Address {
  kind(): "ipv4" | "ipv6";
  /** The canonical text (RFC 5952). */
  toString(): string;
}

type Parsed = ipaddr.IPv4 | ipaddr.IPv6;

/** A network: its base address and the length of its prefix in bits. */
export type Range = readonly [Address, number];

// No leading zeros: some parsers read 010.0.0.1 as 8.0.0.1.
const PART = "(?:0|[1-9]\\d{0,2})";
const FOUR_PARTS = new RegExp(`^(?:${PART}\\.){3}${PART}$`);
const PORT = "(?::(\\d{1,5}|_[A-Za-z0-9._-]+))?";
const WITH_BRACKETS = new RegExp(`^\\[([^\\]]*)\\]${PORT}$`);
const WITH_PORT = new RegExp(`^(${PART}(?:\\.${PART}){3})${PORT}$`);
/** Longer than any address with a zone and a port. */
const MAX_CHARS = 100;
/** IPv6 networks whose last 32 bits are an IPv4 address: IPv4-mapped addresses of dual-stack sockets, and NAT64. */
const EMBEDS_IPV4: readonly Range[] = [
  [ipaddr.IPv6.parse("::ffff:0:0"), 96],
  [ipaddr.IPv6.parse("64:ff9b::"), 96],
];

/** Parses untrusted text as an address, with or without a port; `undefined` if it is not one. */
export function parseAddress(text: string | undefined): Address | undefined {
  if (typeof text !== "string") return undefined;
  const trimmed = trimBlanks(text);
  if (trimmed.length > MAX_CHARS) return undefined;
  const [, host = trimmed, port = "0"] = WITH_BRACKETS.exec(trimmed) ?? WITH_PORT.exec(trimmed) ?? [];
  if (Number(port) > 65_535) return undefined;
  // Brackets are valid around IPv6 addresses only.
  return trimmed.startsWith("[") ? parseIPv6(host) : (parseIPv4(host) ?? parseIPv6(host));
}

/** Removes spaces and tabs at both ends. Not a regular expression, which would take quadratic time. */
function trimBlanks(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isBlank(text[start])) start++;
  while (end > start && isBlank(text[end - 1])) end--;
  return text.slice(start, end);
}

function isBlank(character: string | undefined): boolean {
  return character === " " || character === "\t";
}

/** Whether one of the ranges contains the address. */
export function isIn(ranges: readonly Range[], address: Address): boolean {
  return ranges.some(([base, bits]) => base.kind() === address.kind() && within(address, base, bits));
}

/** Names that Express's "trust proxy" accepts for ranges. */
const EXPRESS_RANGES: Readonly<Record<string, string>> = {
  loopback: '"127.0.0.0/8" and "::1"',
  linklocal: '"169.254.0.0/16" and "fe80::/10"',
  uniquelocal: '"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16" and "fc00::/7"',
};

/** Why text is not accepted as a range. */
export type RangeProblem = "malformed" | "zone" | "every-ipv4" | "every-ipv6";

/** Parses a range such as `10.0.0.0/8`, or one address, or returns what is wrong. Bits after the prefix are ignored. */
export function readRange(text: unknown): Range | RangeProblem {
  if (typeof text !== "string" || text.length > MAX_CHARS) return "malformed";
  const [host = "", bits, ...more] = text.split("/");
  if (host.includes("%")) return "zone";
  const base = parseIPv4(host) ?? parseIPv6(host, "whole");
  const width = base?.kind() === "ipv4" ? 32 : 128;
  const length = bits === undefined ? width : /^(?:0|[1-9]\d{0,2})$/.test(bits) ? Number(bits) : -1;
  if (!base || more.length > 0 || length < 0 || length > width) return "malformed";
  const narrowed = narrow(base);
  const prefix = narrowed === base ? length : length - 96;
  return prefix > 0 ? [narrowed, prefix] : `every-${narrowed.kind()}`;
}

/** Parses a range of an option, or throws. */
export function parseRange(option: string, text: unknown): Range {
  const range = readRange(text);
  if (typeof range !== "string") return range;
  const expected = EXPECTED[range] ?? "a range that does not contain every address";
  const [host = ""] = typeof text === "string" ? text.split("/") : [];
  if (!Object.hasOwn(EXPRESS_RANGES, host)) throw optionError("invalid-option", option, expected, text);
  const message = `${option} must be ${expected}. For Express's "${host}", write ${EXPRESS_RANGES[host]}.`;
  throw new SluiceError("invalid-option", message, { option, expected, received: text });
}

const EXPECTED: { readonly [problem in RangeProblem]?: string } = {
  malformed: "IP addresses and ranges such as 10.0.0.0/8 or 2001:db8::/32",
  zone: "an address without a zone, because fe80::1%eth0 would match every interface",
};

/**
 * Writes the bits of an address to `words`, 32 to each, and returns their number: 1 for IPv4, 4 for IPv6. Doesn't compare
 * classes, because the address may come from the other build of the package.
 */
export function writeWords(address: Address, words: Uint32Array): 1 | 4 {
  if (address.kind() === "ipv4") {
    const [a = 0, b = 0, c = 0, d = 0] = (address as ipaddr.IPv4).octets;
    words[0] = (a << 24) | (b << 16) | (c << 8) | d;
    return 1;
  }
  const { parts } = address as ipaddr.IPv6;
  for (let i = 0; i < 4; i++) words[i] = ((parts[2 * i] as number) << 16) | (parts[2 * i + 1] as number);
  return 4;
}

/** The name of a client's network: the first `ipv6Prefix` bits of an IPv6 address, an IPv4 address as it is. */
export function networkOf(address: Address, ipv6Prefix: number): string {
  if (address instanceof ipaddr.IPv4) return address.toString();
  const bytes = (address as ipaddr.IPv6)
    .toByteArray()
    .map((byte, i) => byte & (0xff00 >> clamp(ipv6Prefix - 8 * i, 0, 8)) & 0xff);
  // The prefix length keeps a network apart from a host.
  return `${new ipaddr.IPv6(bytes).toRFC5952String()}/${ipv6Prefix}`;
}

/** The name of the network that an address is probably routed with: /24 of IPv4, /48 of IPv6. */
export function widerNetworkOf(address: Address): string {
  if (!(address instanceof ipaddr.IPv4)) return networkOf(address, 48);
  const [a = 0, b = 0, c = 0] = address.octets;
  return `${a}.${b}.${c}.0/24`;
}

function parseIPv4(text: string): ipaddr.IPv4 | undefined {
  return FOUR_PARTS.test(text) && ipaddr.IPv4.isValid(text) ? ipaddr.IPv4.parse(text) : undefined;
}

/** `"whole"` keeps an embedded IPv4 address as IPv6. */
function parseIPv6(text: string, whole?: "whole"): Parsed | undefined {
  // A zone names a network interface of the machine that wrote it, so it is dropped.
  const [, plain = text] = /^([^%]*)%[A-Za-z0-9._~-]+$/.exec(text) ?? [];
  const start = plain.lastIndexOf(":") + 1;
  // Dotted parts become groups: ipaddr.js reads `::1.2.3.4` as an IPv4 address.
  const dotted = parseIPv4(plain.slice(start));
  const groups = dotted ? plain.slice(0, start) + groupsOf(dotted) : plain;
  // ipaddr.js also accepts groups of five digits, which are invalid.
  if (/[^0-9a-f:]|[0-9a-f]{5}/i.test(groups) || start === 0 || !ipaddr.IPv6.isValid(groups)) return undefined;
  const address = ipaddr.IPv6.parse(groups);
  return whole ? address : narrow(address);
}

function groupsOf({ octets: [a = 0, b = 0, c = 0, d = 0] }: ipaddr.IPv4): string {
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}

/** The IPv4 address that an IPv6 address embeds, or the address itself. */
function narrow(address: Parsed): Parsed {
  if (address instanceof ipaddr.IPv4 || !isIn(EMBEDS_IPV4, address)) return address;
  return new ipaddr.IPv4(address.toByteArray().slice(12));
}

function within(address: Address, base: Address, bits: number): boolean {
  return address instanceof ipaddr.IPv4
    ? address.match(base as ipaddr.IPv4, bits)
    : (address as ipaddr.IPv6).match(base as ipaddr.IPv6, bits);
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}

/** The canonical text of a private address, such as that of a proxy beside the server; `undefined` for any other. */
export function privateAddress(text: string | undefined): string | undefined {
  const address = parseAddress(text) as Parsed | undefined;
  return address && PRIVATE.includes(address.range()) ? address.toString() : undefined;
}

const PRIVATE: readonly string[] = ["loopback", "private", "linkLocal", "uniqueLocal", "carrierGradeNat"];
