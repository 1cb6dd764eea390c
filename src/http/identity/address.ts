/**
 * Addresses by their bits. The text of an address is what a client or a proxy chose to write; two spellings of one
 * address must be one client, and no spelling may pass for another address.
 */
import ipaddr from "ipaddr.js";
import { optionError } from "../../core/errors.ts";

/** An address of IPv4, or one of IPv6 that does not stand for one of IPv4. What it is inside stays in this file. */
export interface Address {
  kind(): "ipv4" | "ipv6";
  /** Its one spelling (RFC 5952). */
  toString(): string;
}

type Parsed = ipaddr.IPv4 | ipaddr.IPv6;

/** Addresses that begin with the same bits. */
export type Range = readonly [Address, number];

// No part has a leading zero: some read 010.0.0.1 as 8.0.0.1.
const PART = "(?:0|[1-9]\\d{0,2})";
const FOUR_PARTS = new RegExp(`^(?:${PART}\\.){3}${PART}$`);
const PORT = "(?::(\\d{1,5}|_[A-Za-z0-9._-]+))?";
const WITH_BRACKETS = new RegExp(`^\\[([^\\]]*)\\]${PORT}$`);
const WITH_PORT = new RegExp(`^(${PART}(?:\\.${PART}){3})${PORT}$`);
/** Longer than any address with a zone and a port. */
const MAX_LENGTH = 100;
/** Prefixes whose last 32 bits are an address of IPv4: written for IPv6 sockets, and translated by NAT64. */
const CARRIES_IPV4: readonly Range[] = [
  [ipaddr.IPv6.parse("::ffff:0:0"), 96],
  [ipaddr.IPv6.parse("64:ff9b::"), 96],
];

/** The address that a text from outside names, with or without a port; `undefined` if it names none. */
export function parseAddress(text: string | undefined): Address | undefined {
  if (typeof text !== "string") return undefined;
  const trimmed = trimBlanks(text);
  if (trimmed.length > MAX_LENGTH) return undefined;
  const [, host = trimmed, port = "0"] = WITH_BRACKETS.exec(trimmed) ?? WITH_PORT.exec(trimmed) ?? [];
  if (Number(port) > 65_535) return undefined;
  // Only IPv6 has brackets.
  return trimmed.startsWith("[") ? parseIPv6(host) : (parseIPv4(host) ?? parseIPv6(host));
}

/** Without the blanks of HTTP at its ends. Not a pattern: those take time that grows with the square of the blanks. */
function trimBlanks(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isBlank(text[start])) start++;
  while (end > start && isBlank(text[end - 1])) end--;
  return text.slice(start, end);
}

function isBlank(character: string | undefined): boolean {
  return character === " " || character === "\t";
}

/** Whether a range of the list holds the address. */
export function isIn(ranges: readonly Range[], address: Address): boolean {
  return ranges.some(([base, bits]) => base.kind() === address.kind() && within(address, base, bits));
}

/** A range such as `10.0.0.0/8`, or one address. Bits after the prefix are ignored. */
export function parseRange(option: string, text: unknown): Range {
  const [host = "", bits, ...more] = typeof text === "string" ? text.split("/") : [];
  if (host.includes("%")) {
    const expected = "an address without a zone: zones are not compared, so fe80::1%eth0 would match every interface";
    throw optionError("invalid-option", option, expected, text);
  }
  const base = parseIPv4(host) ?? parseIPv6(host, "whole");
  const width = base?.kind() === "ipv4" ? 32 : 128;
  const length = bits === undefined ? width : /^(?:0|[1-9]\d{0,2})$/.test(bits) ? Number(bits) : -1;
  if (!base || more.length > 0 || length < 0 || length > width) {
    throw optionError("invalid-option", option, "an address or a range such as 10.0.0.0/8 or 2001:db8::/32", text);
  }
  const inside = narrow(base);
  const bitsOfKind = inside === base ? length : length - 96;
  if (bitsOfKind > 0) return [inside, bitsOfKind];
  throw optionError("invalid-option", option, "a range that does not hold everybody's address", text);
}

/** How a client is called by its address: IPv6 by the network that one subscriber has, IPv4 as it is. */
export function networkOf(address: Address, ipv6Prefix: number): string {
  if (address instanceof ipaddr.IPv4) return address.toString();
  const bytes = (address as ipaddr.IPv6)
    .toByteArray()
    .map((byte, i) => byte & (0xff00 >> clamp(ipv6Prefix - 8 * i, 0, 8)) & 0xff);
  // The length is part of the name, so that a network is never taken for a host.
  return `${new ipaddr.IPv6(bytes).toRFC5952String()}/${ipv6Prefix}`;
}

function parseIPv4(text: string): ipaddr.IPv4 | undefined {
  return FOUR_PARTS.test(text) && ipaddr.IPv4.isValid(text) ? ipaddr.IPv4.parse(text) : undefined;
}

/** `whole` keeps an address of IPv4 inside of IPv6 as it stands. */
function parseIPv6(text: string, whole?: "whole"): Parsed | undefined {
  // What follows a per cent sign names a network card of the machine that wrote it.
  const [, plain = text] = /^([^%]*)%[A-Za-z0-9._~-]+$/.exec(text) ?? [];
  const start = plain.lastIndexOf(":") + 1;
  // Dots are turned into groups here: the parser would take `::1.2.3.4` for an address of IPv4, by its spelling.
  const dotted = parseIPv4(plain.slice(start));
  const groups = dotted ? plain.slice(0, start) + groupsOf(dotted) : plain;
  // The parser also takes groups of five digits, which the standard does not have.
  if (/[^0-9a-f:]|[0-9a-f]{5}/i.test(groups) || start === 0 || !ipaddr.IPv6.isValid(groups)) return undefined;
  const address = ipaddr.IPv6.parse(groups);
  return whole ? address : narrow(address);
}

function groupsOf({ octets: [a = 0, b = 0, c = 0, d = 0] }: ipaddr.IPv4): string {
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}

/** An address of IPv4 for one of IPv6 that carries it. */
function narrow(address: Parsed): Parsed {
  if (address instanceof ipaddr.IPv4 || !isIn(CARRIES_IPV4, address)) return address;
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

/** An address that is not of the public Internet, such as that of a proxy beside the server, in its one spelling. */
export function privateAddress(text: string | undefined): string | undefined {
  const address = parseAddress(text) as Parsed | undefined;
  return address && PRIVATE.includes(address.range()) ? address.toString() : undefined;
}

const PRIVATE: readonly string[] = ["loopback", "private", "linkLocal", "uniqueLocal", "carrierGradeNat"];
