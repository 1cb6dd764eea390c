/** A reference implementation of `clientIp`: slow and simple, with addresses as strings of bits. */

/** The arguments of `clientIp`. */
export interface ReferenceRequest {
  peer?: string | undefined;
  headers: Headers | Record<string, string | string[] | undefined>;
}

/** A trust rule: no proxy, or proxies by number or by address. */
export type ReferenceTrust = undefined | "peer" | { trustedProxies: number | readonly string[]; header?: string };

/** An address as a string of 32 or of 128 ones and zeros. */
export type Bits = string;

/** All addresses of 32 or 128 bits with the same prefix. */
export interface Range {
  readonly width: number;
  readonly prefix: Bits;
}

const MAX_CHARS = 8192;
const MAX_ENTRIES = 64;
const MAX_ADDRESS_CHARS = 100;

const BYTES: readonly Bits[] = Array.from({ length: 256 }, (_, byte) => byte.toString(2).padStart(8, "0"));
const MAPPED: Bits = "0".repeat(80) + "1".repeat(16);
const NAT64: Bits = bitsOf(0x64, 16) + bitsOf(0xff9b, 16) + "0".repeat(64);

export const DIGITS = "0123456789";
const HEX = "0123456789abcdefABCDEF";
const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ZONE = `${DIGITS}${LETTERS}._~-`;
export const TOKEN = `${DIGITS}${LETTERS}!#$%&'*+-.^_\`|~`;

/** The address of the client; `undefined` if it is unknown. */
export function referenceClientIp(request: ReferenceRequest, trust: ReferenceTrust): string | undefined {
  const peerBits = request.peer === undefined ? undefined : addressBits(request.peer);
  const peer = peerBits === undefined ? undefined : textOf(peerBits);
  if (trust === undefined || trust === "peer") return peer;

  const { trustedProxies, header = "x-forwarded-for" } = trust;
  const rules = typeof trustedProxies === "number" ? undefined : rangesOf(trustedProxies);
  const isTrusted = (bits: Bits): boolean => rules?.some((range) => contains(range, bits)) ?? false;
  if (rules !== undefined && (peerBits === undefined || !isTrusted(peerBits))) return peer;

  const lines = linesOf(request.headers, header);
  if (header !== "x-forwarded-for" && header !== "forwarded") {
    const only = lines.length === 1 && !lines[0]?.includes(",") ? addressBits(lines[0] as string) : undefined;
    return only === undefined ? peer : textOf(only);
  }

  const whole = lines.join(",");
  const text = whole.slice(-MAX_CHARS);
  const pieces = lines.length === 0 ? [] : splitFromRight(text, header === "forwarded");
  // A truncated entry is invalid.
  if (text !== whole) pieces[pieces.length - 1] = "";
  const entries = pieces.slice(0, MAX_ENTRIES);
  // Each of the counted proxies has written one entry.
  if (rules === undefined && entries.length < Number(trustedProxies)) return peer;
  let current = peer;
  let steps = 0;
  for (const entry of entries) {
    const bits = header === "forwarded" ? forwardedBits(entry) : addressBits(entry);
    if (bits === undefined) return current;
    current = textOf(bits);
    steps++;
    if (rules === undefined ? steps === trustedProxies : !isTrusted(bits)) return current;
  }
  return rules === undefined ? peer : current;
}

/** The canonical text of an address; `undefined` if the text is not an address. */
export function canonicalAddress(text: string): string | undefined {
  const bits = addressBits(text);
  return bits === undefined ? undefined : textOf(bits);
}

/** Whether a range contains an address in any notation. */
export function isInRange(address: string, range: Range): boolean {
  const bits = addressBits(address);
  return bits !== undefined && contains(range, bits);
}

export function contains({ width, prefix }: Range, bits: Bits): boolean {
  return bits.length === width && bits.startsWith(prefix);
}

function linesOf(headers: ReferenceRequest["headers"], name: string): string[] {
  const value = headers instanceof Headers ? (headers.get(name) ?? undefined) : headers[name];
  if (value === undefined) return [];
  return typeof value === "string" ? [value] : value;
}

/** The parts between commas, the last one first. */
function splitFromRight(text: string, hasQuotes: boolean): string[] {
  const pieces: string[] = [];
  let piece = "";
  let isQuoted = false;
  for (let at = text.length - 1; at >= 0; at--) {
    const character = text[at] as string;
    if (hasQuotes && character === '"') {
      let backslashes = 0;
      while (text[at - 1 - backslashes] === "\\") backslashes++;
      if (backslashes % 2 === 0) isQuoted = !isQuoted;
    }
    if (character === "," && !isQuoted) {
      pieces.push(piece);
      piece = "";
    } else piece = character + piece;
  }
  pieces.push(piece);
  return pieces;
}

/** The address of one element of a Forwarded header. */
function forwardedBits(element: string): Bits | undefined {
  const fors: string[] = [];
  let rest = trimmed(element);
  while (rest !== "") {
    // RFC 7239 allows empty pairs: `;for=192.0.2.1;` is well formed.
    if (rest[0] === ";") {
      rest = trimmed(rest.slice(1));
      continue;
    }
    const name = leading(rest, TOKEN);
    rest = rest.slice(name.length);
    if (name === "" || rest[0] !== "=") return undefined;
    rest = rest.slice(1);
    let value = "";
    if (rest[0] === '"') {
      let at = 1;
      while (rest[at] !== '"') {
        if (rest[at] === "\\") at++;
        const character = rest[at];
        if (character === undefined || !mayBeQuoted(character)) return undefined;
        value += character;
        at++;
      }
      rest = rest.slice(at + 1);
    } else {
      value = leading(rest, TOKEN);
      if (value === "") return undefined;
      // A port requires quotes, which some proxies omit.
      const port = rest[value.length] === ":" ? leading(rest.slice(value.length + 1), DIGITS).slice(0, 5) : "";
      if (port !== "") value += `:${port}`;
      rest = rest.slice(value.length);
    }
    if (name.toLowerCase() === "for") fors.push(value);
    rest = trimmed(rest);
    if (rest !== "" && rest[0] !== ";") return undefined;
  }
  const [node = ""] = fors;
  return fors.length === 1 && node === trimmed(node) ? addressBits(node, false) : undefined;
}

/** Whether RFC 9110 allows a character in a quoted string: tabs, and all bytes except control characters. */
function mayBeQuoted(character: string): boolean {
  const code = character.charCodeAt(0);
  return code === 9 || (code >= 32 && code <= 255 && code !== 127);
}

/** The bits of an address in a header. In Forwarded, an IPv6 address requires brackets. */
function addressBits(text: string, mayBeBare = true): Bits | undefined {
  const whole = trimmed(text);
  if (whole.length > MAX_ADDRESS_CHARS) return undefined;
  const bits = v4Bits(whole) ?? v4WithPort(whole) ?? inBrackets(whole) ?? (mayBeBare ? v6Bits(whole) : undefined);
  return bits === undefined ? undefined : unmapped(bits);
}

/** The embedded IPv4 address of an IPv4-mapped or NAT64 address. */
export function unmapped(bits: Bits): Bits {
  return bits.length === 128 && (bits.startsWith(MAPPED) || bits.startsWith(NAT64)) ? bits.slice(96) : bits;
}

function v4WithPort(text: string): Bits | undefined {
  const colon = text.indexOf(":");
  return colon >= 0 && isPort(text.slice(colon + 1)) ? v4Bits(text.slice(0, colon)) : undefined;
}

/** The first closing bracket ends the address, even inside of a zone. */
function inBrackets(text: string): Bits | undefined {
  const end = text.indexOf("]");
  if (text[0] !== "[" || end < 0) return undefined;
  const after = text.slice(end + 1);
  const isClosed = after === "" || (after[0] === ":" && isPort(after.slice(1)));
  return isClosed ? v6Bits(text.slice(1, end)) : undefined;
}

function isPort(text: string): boolean {
  if (text[0] === "_") return text.length > 1 && consistsOf(text.slice(1), `${DIGITS}${LETTERS}._-`);
  return text.length >= 1 && text.length <= 5 && consistsOf(text, DIGITS) && Number(text) <= 65535;
}

function v4Bits(text: string): Bits | undefined {
  const parts = text.split(".");
  if (parts.length !== 4) return undefined;
  for (const part of parts) {
    if (part === "" || part.length > 3 || !consistsOf(part, DIGITS)) return undefined;
    if (part.length > 1 && part[0] === "0") return undefined;
    if (Number(part) > 255) return undefined;
  }
  return parts.map((part) => bitsOf(Number(part), 8)).join("");
}

function v6Bits(textWithZone: string): Bits | undefined {
  let text = textWithZone;
  const percent = text.indexOf("%");
  if (percent >= 0) {
    const zone = text.slice(percent + 1);
    if (zone === "" || leading(zone, ZONE) !== zone) return undefined;
    text = text.slice(0, percent);
  }

  let tail = "";
  if (text.includes(".")) {
    const colon = text.lastIndexOf(":");
    const dotted = v4Bits(text.slice(colon + 1));
    if (colon < 0 || dotted === undefined) return undefined;
    tail = dotted;
    // Replaced by two groups, so the groups can be counted.
    text = `${text.slice(0, colon + 1)}0:0`;
  }

  const halves = text.split("::").map((half) => (half === "" ? [] : half.split(":")));
  if (halves.length > 2) return undefined;
  const [left = [], right = []] = halves;
  const given = [...left, ...right];
  if (given.some((group) => group === "" || group.length > 4 || !consistsOf(group, HEX))) return undefined;
  if (halves.length === 1 ? given.length !== 8 : given.length > 7) return undefined;
  const zeros = new Array<string>(8 - given.length).fill("0");
  const bits = [...left, ...zeros, ...right].map((group) => bitsOf(Number.parseInt(group, 16), 16)).join("");
  return tail === "" ? bits : bits.slice(0, 96) + tail;
}

/** The range of a rule such as 10.0.0.0/8. */
export function rangeOf(rule: string): Range {
  const [address = "", length] = rule.split("/");
  const bits = v4Bits(address) ?? v6Bits(address);
  if (bits === undefined) throw new Error(`invalid rule ${rule}`);
  const prefix = bits.slice(0, length === undefined ? bits.length : Number(length));
  if (bits.length === 128 && prefix.length >= 96 && (prefix.startsWith(MAPPED) || prefix.startsWith(NAT64)))
    return { width: 32, prefix: prefix.slice(96) };
  return { width: bits.length, prefix };
}

const known = new WeakMap<readonly string[], readonly Range[]>();

function rangesOf(rules: readonly string[]): readonly Range[] {
  const ranges = known.get(rules) ?? rules.map(rangeOf);
  known.set(rules, ranges);
  return ranges;
}

/** Dotted decimal, or RFC 5952 text. */
function textOf(bits: Bits): string {
  if (bits.length === 32) return numbersOf(bits, 8).join(".");
  const groups = numbersOf(bits, 16).map((group) => group.toString(16));
  for (let length = 8; length >= 2; length--) {
    for (let start = 0; start + length <= 8; start++) {
      const isZero = groups.slice(start, start + length).every((group) => group === "0");
      if (isZero) return `${groups.slice(0, start).join(":")}::${groups.slice(start + length).join(":")}`;
    }
  }
  return groups.join(":");
}

export function bitsOf(value: number, width: 8 | 16): Bits {
  return width === 8 ? (BYTES[value] as Bits) : `${BYTES[value >> 8]}${BYTES[value & 255]}`;
}

/** The bits as numbers of `width` bits each. */
export function numbersOf(bits: Bits, width: 8 | 16): number[] {
  const numbers: number[] = [];
  for (let at = 0; at < bits.length; at += width) numbers.push(Number.parseInt(bits.slice(at, at + width), 2));
  return numbers;
}

export function trimmed(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isBlank(text[start])) start++;
  while (end > start && isBlank(text[end - 1])) end--;
  return text.slice(start, end);
}

function isBlank(character: string | undefined): boolean {
  return character === " " || character === "\t";
}

function leading(text: string, alphabet: string): string {
  let end = 0;
  while (end < text.length && alphabet.includes(text[end] as string)) end++;
  return text.slice(0, end);
}

export function consistsOf(text: string, alphabet: string): boolean {
  for (const character of text) if (!alphabet.includes(character)) return false;
  return true;
}
