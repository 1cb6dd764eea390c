/** A second way to a client's address, slow and plain: strings of bits, and hostile requests to try both ways on. */
import type { Random } from "../../src/testing/random.ts";

/** What is known of a request. */
export interface SlowFacts {
  peer?: string | undefined;
  headers: Headers | Record<string, string | string[] | undefined>;
}

/** Whom to believe: nobody, or proxies by number or by address. */
export type SlowTrust = undefined | "peer" | { trustedProxies: number | readonly string[]; header?: string };

/** An address as a string of 32 or of 128 ones and zeros. */
type Bits = string;

/** All addresses of 32 or of 128 bits that begin alike. */
export interface Range {
  readonly width: number;
  readonly prefix: Bits;
}

const MOST_CHARACTERS = 8192;
const MOST_ENTRIES = 64;
const MOST_TEXT = 100;

const BYTES: readonly Bits[] = Array.from({ length: 256 }, (_, byte) => byte.toString(2).padStart(8, "0"));
const MAPPED: Bits = "0".repeat(80) + "1".repeat(16);
const NAT64: Bits = bitsOf(0x64, 16) + bitsOf(0xff9b, 16) + "0".repeat(64);

const DIGITS = "0123456789";
const HEX = "0123456789abcdefABCDEF";
const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ZONE = `${DIGITS}${LETTERS}._~-`;
const TOKEN = `${DIGITS}${LETTERS}!#$%&'*+-.^_\`|~`;

/** The address of the client, by the book. */
export function slowClientIp(facts: SlowFacts, trust: SlowTrust): string | undefined {
  const peerBits = facts.peer === undefined ? undefined : slowBits(facts.peer);
  const peer = peerBits === undefined ? undefined : textOf(peerBits);
  if (trust === undefined || trust === "peer") return peer;

  const { trustedProxies, header = "x-forwarded-for" } = trust;
  const rules = typeof trustedProxies === "number" ? undefined : rangesOf(trustedProxies);
  const isTrusted = (bits: Bits): boolean => rules?.some((range) => holds(range, bits)) ?? false;
  if (rules !== undefined && (peerBits === undefined || !isTrusted(peerBits))) return peer;

  const lines = linesOf(facts.headers, header);
  if (header !== "x-forwarded-for" && header !== "forwarded") {
    const only = lines.length === 1 && !lines[0]?.includes(",") ? slowBits(lines[0] as string) : undefined;
    return only === undefined ? peer : textOf(only);
  }

  const whole = lines.join(",");
  const text = whole.slice(-MOST_CHARACTERS);
  const pieces = lines.length === 0 ? [] : fromTheRight(text, header === "forwarded");
  // Half an entry is none.
  if (text !== whole) pieces[pieces.length - 1] = "";
  const entries = pieces.slice(0, MOST_ENTRIES);
  // Proxies that are counted have each written one.
  if (rules === undefined && entries.length < Number(trustedProxies)) return peer;
  let current = peer;
  let steps = 0;
  for (const entry of entries) {
    const bits = header === "forwarded" ? forwardedBits(entry) : slowBits(entry);
    if (bits === undefined) return current;
    current = textOf(bits);
    steps++;
    if (rules === undefined ? steps === trustedProxies : !isTrusted(bits)) return current;
  }
  return rules === undefined ? peer : current;
}

/** The one spelling of an address, or undefined if the text is none. */
export function slowNormalise(text: string): string | undefined {
  const bits = slowBits(text);
  return bits === undefined ? undefined : textOf(bits);
}

/** Whether an address, in any notation, lies in a range. */
export function slowLiesIn(address: string, range: Range): boolean {
  const bits = slowBits(address);
  return bits !== undefined && holds(range, bits);
}

function holds({ width, prefix }: Range, bits: Bits): boolean {
  return bits.length === width && bits.startsWith(prefix);
}

function linesOf(headers: SlowFacts["headers"], name: string): string[] {
  const value = headers instanceof Headers ? (headers.get(name) ?? undefined) : headers[name];
  if (value === undefined) return [];
  return typeof value === "string" ? [value] : value;
}

/** The pieces between commas, the last one first. */
function fromTheRight(text: string, hasQuotes: boolean): string[] {
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
    // RFC 7239 lets a pair be left out: `;for=192.0.2.1;` is well formed.
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
      // A port has to be quoted, which not all proxies do.
      const port = rest[value.length] === ":" ? leading(rest.slice(value.length + 1), DIGITS).slice(0, 5) : "";
      if (port !== "") value += `:${port}`;
      rest = rest.slice(value.length);
    }
    if (name.toLowerCase() === "for") fors.push(value);
    rest = trimmed(rest);
    if (rest !== "" && rest[0] !== ";") return undefined;
  }
  const [node = ""] = fors;
  return fors.length === 1 && node === trimmed(node) ? slowBits(node, false) : undefined;
}

/** What RFC 9110 lets stand between double quotes: tabs, and all bytes that are not control characters. */
function mayBeQuoted(character: string): boolean {
  const code = character.charCodeAt(0);
  return code === 9 || (code >= 32 && code <= 255 && code !== 127);
}

/** The bits of an address as it stands in a header; in Forwarded an IPv6 address needs its brackets. */
function slowBits(text: string, mayBeBare = true): Bits | undefined {
  const whole = trimmed(text);
  if (whole.length > MOST_TEXT) return undefined;
  const bits = v4Bits(whole) ?? v4WithPort(whole) ?? inBrackets(whole) ?? (mayBeBare ? v6Bits(whole) : undefined);
  return bits === undefined ? undefined : folded(bits);
}

/** An IPv4 address that came in the clothes of IPv6 is an IPv4 address. */
function folded(bits: Bits): Bits {
  return bits.length === 128 && (bits.startsWith(MAPPED) || bits.startsWith(NAT64)) ? bits.slice(96) : bits;
}

function v4WithPort(text: string): Bits | undefined {
  const colon = text.indexOf(":");
  return colon >= 0 && isPort(text.slice(colon + 1)) ? v4Bits(text.slice(0, colon)) : undefined;
}

/** The first closing bracket ends the address, also where a zone would go on. */
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
    // Two groups hold its place while the groups are counted.
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

/** What an address must begin with to be in the rule. */
export function rangeOf(rule: string): Range {
  const [address = "", length] = rule.split("/");
  const bits = v4Bits(address) ?? v6Bits(address);
  if (bits === undefined) throw new Error(`the slow walk cannot read the rule ${rule}`);
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

/** Dotted decimals, or RFC 5952. */
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

function bitsOf(value: number, width: 8 | 16): Bits {
  return width === 8 ? (BYTES[value] as Bits) : `${BYTES[value >> 8]}${BYTES[value & 255]}`;
}

/** The numbers of so many bits each that the bits spell. */
function numbersOf(bits: Bits, width: 8 | 16): number[] {
  const numbers: number[] = [];
  for (let at = 0; at < bits.length; at += width) numbers.push(Number.parseInt(bits.slice(at, at + width), 2));
  return numbers;
}

function trimmed(text: string): string {
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

function consistsOf(text: string, alphabet: string): boolean {
  for (const character of text) if (!alphabet.includes(character)) return false;
  return true;
}

/** Four parts of 8 bits, or eight groups of 16. */
export type Numbers = readonly number[];

const INTERESTING = [0, 0, 0, 0, 1, 0xf, 0xff, 0x100, 0xdb8, 0x2001, 0xfe80, 0xffff];

/** Any address, with more zeros than chance would give. */
export function anyAddress(random: Random): Numbers {
  return random.whole(0, 1) === 0 ? anyV4(random) : anyV6(random);
}

export function anyV4(random: Random): Numbers {
  return Array.from({ length: 4 }, () => (random.whole(0, 5) === 0 ? random.pick([0, 1, 255]) : random.whole(0, 255)));
}

/** Never one that stands for an IPv4 address, but often one that nearly does. */
export function anyV6(random: Random): Numbers {
  const tail = [random.whole(0, 0xffff), random.whole(0, 0xffff)];
  const near = random.whole(0, 19);
  if (near === 0) return [0, 0, 0, 0, 0, 0xfffe, ...tail];
  if (near === 1) return [0, 0, 0, 0, 0xffff, 0, ...tail];
  if (near === 2) return [0x64, 0xff9b, 1, 0, 0, 0, ...tail];
  if (near === 3) return [0, 0, 0, 0, 0, 0, ...tail];
  const first = random.whole(0x2000, 0x3fff);
  const rest = Array.from({ length: 7 }, () =>
    random.whole(0, 2) === 0 ? random.whole(0, 0xffff) : random.pick(INTERESTING),
  );
  return [first, ...rest];
}

/** One of the many spellings of an address, without brackets and port. */
export function spelled(random: Random, address: Numbers): string {
  if (address.length === 8) return spelledV6(random, address);
  const kind = random.whole(0, 5);
  const last = [Number(address[0]) * 256 + Number(address[1]), Number(address[2]) * 256 + Number(address[3])];
  if (kind === 0) return spelledV6(random, [0, 0, 0, 0, 0, 0xffff, ...last]);
  if (kind === 1) return spelledV6(random, [0x64, 0xff9b, 0, 0, 0, 0, ...last]);
  return address.join(".");
}

function spelledV6(random: Random, groups: Numbers): string {
  const padding = random.pick([1, 1, 2, 4]);
  const words = groups.map((group) => {
    const word = group.toString(16).padStart(padding, "0");
    return random.whole(0, 3) === 0 ? word.toUpperCase() : word;
  });
  const hasDots = random.whole(0, 5) === 0;
  if (hasDots) {
    const [high, low] = [Number(groups[6]), Number(groups[7])];
    words.splice(6, 2, [high >> 8, high & 255, low >> 8, low & 255].join("."));
  }
  const end = hasDots ? 6 : 8;
  const start = random.whole(0, end - 1);
  let stop = start;
  while (stop < end && groups[stop] === 0) stop++;
  if (stop === start || random.whole(0, 4) === 0) return words.join(":");
  return `${words.slice(0, start).join(":")}::${words.slice(stop).join(":")}`;
}

/** An address as a proxy may write it: with brackets, a port, a zone, blanks. */
export function dressed(random: Random, address: Numbers): string {
  let text = spelled(random, address);
  const port =
    random.whole(0, 3) === 0 ? `:${random.pick(["0", "80", "4711", "65535", "00443", "_x", "_a.b-C_1"])}` : "";
  if (text.includes(":")) {
    if (random.whole(0, 7) === 0) text += random.pick(["%eth0", "%1", "%25", "%en-0.1~_"]);
    if (port !== "" || random.whole(0, 3) === 0) text = `[${text}]${port}`;
  } else text += port;
  return random.whole(0, 9) === 0 ? `${random.pick(["", " ", "\t "])}${text}${random.pick([" ", "\t", ""])}` : text;
}

const GARBAGE = [
  ...words('unknown _hidden - localhost null undefined * " "" \\ \\" ; = for= a.b.c.d 2130706433'),
  ...words("1.2.3 127.1 010.0.0.1 10.0.0.01 0x7f.0.0.1 256.1.1.1 1.2.3.4.5 1..2.3 .1.2.3 1.2.3.4. +1.2.3.4 -1.2.3.4"),
  ...words("1e1.0.0.1 1.2.3.4/32 1.2.3.4%eth0 \u0661.2.3.4 \uff11.2.3.4 1.2.3.4\n \u00a01.2.3.4 1.2.3.4\u0000 \u0000"),
  ...words("1.2.3.4: 1.2.3.4:65536 1.2.3.4:123456 1.2.3.4:_ 1.2.3.4:-1 1.2.3.4:8o 1.2.3.4:80:80 1.2.3.4:_\u00e4"),
  ...words("1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1:2:3:4:5:6:7:8:: ::1:: ::: 1:::2 :1::2 1::2: 12345:: g:: ::-1 \v::1"),
  ...words("::1.2.3 ::01.2.3.4 1.2.3.4:: ::1.2.3.4:5 ::ffff:1.2.3.4:80 1:2:3:4:5:6:7:1.2.3.4 ::256.0.0.1 ::% %eth0"),
  ...words(
    "[::1 ::1] [::1]: [::1]:99999 [::1]80 [1.2.3.4] [1.2.3.4]:80 [] []:80 [[::1]] [::1]] [::1%] fe80::1% \u2028",
  ),
  ...words("::ffff:0x1.2.3.4 0:0:0:0:0:ffff:1.2.3.256 fe80::1%25"),
  ...["", " ", "1.2.3. 4", "1".repeat(101), `fe80::1%${"z".repeat(92)}`, `fe80::1%${"z".repeat(93)}`],
];

const EDITS = [...'0123456789abcfABFgx:.%[]",;=\\ \t_-/', "::", "ffff:", "\u00e9", "\u0130", "\r", "\u0000"];

/** A few random edits: characters dropped, doubled, swapped or put in. */
export function mutated(random: Random, text: string): string {
  let edited = text;
  for (let edits = random.whole(1, 3); edits > 0; edits--) {
    const at = random.whole(0, edited.length);
    const kind = random.whole(0, 3);
    const kept = kind === 0 ? edited.slice(at) : edited.slice(at + 1);
    const put = kind === 1 ? "" : kind === 2 ? edited.slice(at, at + 1).repeat(2) : random.pick(EDITS);
    edited = edited.slice(0, at) + put + kept;
  }
  return edited;
}

export function garbage(random: Random): string {
  const kind = random.whole(0, 3);
  if (kind === 0) return mutated(random, dressed(random, anyAddress(random)));
  if (kind === 1) return Array.from({ length: random.whole(0, 20) }, () => random.pick(EDITS)).join("");
  if (kind === 2)
    return String.fromCharCode(...Array.from({ length: random.whole(1, 12) }, () => random.whole(0, 255)));
  return random.pick(GARBAGE);
}

/** One element of a Forwarded header, well formed, as a proxy writes it that saw this address. */
export function forwardedElement(random: Random, address: Numbers): string {
  let text = trimmed(dressed(random, address));
  if (text.includes(":") && text[0] !== "[" && !text.includes(".")) text = `[${text}]`;
  // What is left with colons and dots is either v4:port, or IPv6 with a dotted end, which needs brackets.
  if (text[0] !== "[" && text.indexOf(":") !== text.lastIndexOf(":")) text = `[${text}]`;
  return withPairs(random, `${random.pick(["for", "For", "FOR"])}=${asValue(random, text)}`);
}

const PAIRS = [
  ...words('proto=https Proto=http by=10.0.0.1 by="[2001:db8::1]:443" host=example.org host="a,b;c=d" host="a\\"b"'),
  ...words('host="a\\\\" x="" x="\t\u00e9"'),
];

function withPairs(random: Random, pair: string): string {
  const pairs = [pair];
  while (random.whole(0, 2) === 0) pairs.splice(random.whole(0, pairs.length), 0, random.pick(PAIRS));
  return pairs.join(random.pick([";", ";", "; ", " ;\t"]));
}

/** A token where the text is one, or a quoted-string with some characters escaped for no reason. */
function asValue(random: Random, text: string): string {
  const [host = "", port = "0"] = text.split(":");
  const isBare = text === host || (text === `${host}:${port}` && consistsOf(port, DIGITS));
  if (host !== "" && consistsOf(host, TOKEN) && isBare && random.whole(0, 1) === 0) return text;
  const isPlain = random.whole(0, 3) > 0;
  if (isPlain) return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  const escaped = [...text].map((character) =>
    character === '"' || character === "\\" || random.whole(0, 9) === 0 ? `\\${character}` : character,
  );
  return `"${escaped.join("")}"`;
}

const BROKEN_ELEMENTS = [
  ...words(
    "for for= =1.2.3.4 for=1.2.3.4;for=1.2.3.4 for=1.2.3.4;FOR=unknown proto=https for='1.2.3.4' for=_x for=unknown",
  ),
  ...words(
    'for="1.2.3.4 for=1.2.3.4" for="1.2.3.4"x for="[::1] for="" for="_x" for="1.2.3.4\\" for="1.2.3.4\\\\" x=" x="\\',
  ),
  ...words(
    'for=[::1] for=::1 for="::1" for="::ffff:1.2.3.4" for=1.2.3.4:80 for=1.2.3.4: for=1.2.3.4:8o for=1.2.3.4:123456 for=x:80 "for=1.2.3.4" fo\u0280=1.2.3.4 f\u00d6r=1.2.3.4',
  ),
  ...words('for=1.2.3.4; ;for=1.2.3.4 for=1.2.3.4;;proto=http ; x="\u0001";for=1.2.3.4'),
  ...["for =1.2.3.4", "for= 1.2.3.4", "for=1.2.3.4 proto=http", 'for="[::1]" ;x', 'for=" 1.2.3.4\t"', 'for=" [::1]"'],
];

function words(text: string): string[] {
  return text.split(" ");
}

/** A rule for a list of proxies; host bits are left as they fall. */
export function anyRule(random: Random): string {
  const kind = random.whole(0, 9);
  if (kind <= 3) return `${anyV4(random).join(".")}/${random.whole(random.pick([1, 8, 16]), 32)}`;
  if (kind <= 6) return `${spelledV6(random, anyV6(random))}/${random.whole(random.pick([1, 16, 48]), 128)}`;
  if (kind === 7) return `::ffff:${anyV4(random).join(".")}/${random.whole(random.pick([97, 104]), 128)}`;
  if (kind === 8) return random.pick(["::ffff:", "::FFFF:", ""]) + anyV4(random).join(".");
  return spelledV6(random, anyV6(random));
}

/** An address of a range, or one that differs from all of them in one bit of the prefix. */
export function addressNear(random: Random, { width, prefix }: Range, isInside: boolean): Numbers {
  let bits = prefix;
  while (bits.length < width) bits += bitsOf(random.whole(0, 0xffff), 16);
  bits = bits.slice(0, width);
  if (!isInside && prefix.length > 0) {
    const at = random.pick([prefix.length - 1, random.whole(0, prefix.length - 1)]);
    bits = bits.slice(0, at) + (bits[at] === "0" ? "1" : "0") + bits.slice(at + 1);
  }
  return numbersOf(bits, width === 32 ? 8 : 16);
}

/** A server that was told whom to believe. */
export interface Server {
  readonly trust: SlowTrust;
  readonly header: string;
  /** Where its proxies are; of some servers not one is believed by address. */
  readonly ranges: readonly Range[];
}

export function anyServer(random: Random): Server {
  const rules = Array.from({ length: random.whole(1, 4) }, () => anyRule(random));
  const ranges = rules.map(rangeOf);
  const header = random.pick([...WALKED, ...WALKED, "x-real-ip"]);
  if (random.whole(0, 49) === 0) return { trust: random.pick([undefined, "peer"]), header, ranges };
  const trustedProxies = random.whole(0, 2) === 0 ? random.whole(1, 5) : rules;
  const isNamed = header !== "x-forwarded-for" || random.whole(0, 1) === 0;
  return { trust: isNamed ? { trustedProxies, header } : { trustedProxies }, header, ranges };
}

/** A request that may be honest, forged, or noise. */
export function anyRequest(random: Random, { header, ranges }: Server): SlowFacts {
  const address = (): Numbers => {
    const kind = random.whole(0, 9);
    return kind <= 6 ? addressNear(random, random.pick(ranges), kind > 0) : anyAddress(random);
  };
  const entry = (): string => {
    const isBroken = random.whole(0, 11) === 0;
    if (header !== "forwarded") return isBroken ? garbage(random) : dressed(random, address());
    if (!isBroken) return forwardedElement(random, address());
    const kind = random.whole(0, 3);
    if (kind === 0) return random.pick(BROKEN_ELEMENTS);
    if (kind === 1) return mutated(random, forwardedElement(random, address()));
    return kind === 2 ? garbage(random) : withPairs(random, `for=${asValue(random, garbage(random))}`);
  };

  const isLong = random.whole(0, 249) === 0;
  const blanks = isLong ? " ".repeat(random.whole(0, 400)) : random.pick(["", " ", "\t"]);
  const isSingle = header === "x-real-ip" && random.whole(0, 3) > 0;
  const entries = Array.from({ length: isSingle ? 1 : isLong ? random.whole(15, 110) : random.whole(0, 7) }, entry);
  const lines: string[] = [];
  for (const text of entries) {
    if (lines.length === 0 || random.whole(0, 9) === 0) lines.push(text);
    else lines[lines.length - 1] += `,${blanks}${text}`;
  }
  if (lines.length > 0 && random.whole(0, 19) === 0) lines[0] = mutated(random, lines[0] as string);
  return { peer: anyPeer(random, ranges), headers: asHeaders(random, header, lines) };
}

/** A request of a true client through true proxies, each of which appended whom it was called by. */
export interface HonestRequest {
  readonly facts: SlowFacts;
  readonly client: string;
  /** Whether the client had sent the header along itself. */
  readonly isForged: boolean;
}

/** Undefined where the server walks no header, or believes everybody. */
export function honestRequest(random: Random, { trust, header, ranges }: Server): HonestRequest | undefined {
  if (typeof trust !== "object" || header === "x-real-ip") return undefined;
  const { trustedProxies } = trust;
  const isHeld = (address: Numbers): boolean => {
    const bits = folded(address.map((number) => bitsOf(number, address.length === 4 ? 8 : 16)).join(""));
    return ranges.some((range) => holds(range, bits));
  };
  const hops = typeof trustedProxies === "number" ? trustedProxies : undefined;
  const client = anyAddress(random);
  const proxies = Array.from({ length: hops ?? random.whole(1, 5) }, () => {
    return hops === undefined ? addressNear(random, random.pick(ranges), true) : anyAddress(random);
  });
  // A range of IPv6 may hold mapped addresses, which are not in it once they are read as IPv4.
  if (hops === undefined && (isHeld(client) || !proxies.every(isHeld))) return undefined;

  const lines = Array.from({ length: random.whole(0, 3) }, () => typedByClient(random, header));
  const isForged = lines.length > 0;
  for (const seen of [client, ...proxies.slice(0, -1)]) {
    const entry = header === "forwarded" ? forwardedElement(random, seen) : dressed(random, seen);
    if (lines.length === 0 || random.whole(0, 3) === 0) lines.push(entry);
    else lines[lines.length - 1] += `,${random.pick(["", " "])}${entry}`;
  }
  const peer = dressed(random, proxies.at(-1) as Numbers);
  const facts = { peer, headers: asHeaders(random, header, lines) };
  return { facts, client: slowNormalise(plain(client)) as string, isForged };
}

const TRICKS = words('for=" " \\" \\ "\\ for="1.1.1.1 ;x=" for= , ", x="\\\\ for=1.1.1.1;x=');

function typedByClient(random: Random, header: string): string {
  const parts = Array.from({ length: random.whole(0, 5) }, () => {
    const kind = random.whole(0, 3);
    if (kind === 0) return random.pick(TRICKS);
    if (kind === 1) return garbage(random);
    return header === "forwarded" ? forwardedElement(random, anyAddress(random)) : dressed(random, anyAddress(random));
  });
  if (random.whole(0, 199) === 0) parts.push(random.pick(['"', ",", "\\", "1.1.1.1,", 'for="a",']).repeat(2500));
  return parts.join(random.pick([",", ", ", ";", ""]));
}

/** The plainest spelling of an address. */
export function plain(address: Numbers): string {
  return address.length === 4 ? address.join(".") : address.map((group) => group.toString(16)).join(":");
}

const WALKED = ["x-forwarded-for", "forwarded"] as const;

function anyPeer(random: Random, ranges: readonly Range[]): string | undefined {
  const kind = random.whole(0, 19);
  if (kind === 0) return random.pick([undefined, "", garbage(random)]);
  if (kind === 1) return dressed(random, anyAddress(random));
  return dressed(random, addressNear(random, random.pick(ranges), kind > 2));
}

/** Lines as Node gives them, or as the platform's Headers, among other headers that must not be read. */
function asHeaders(random: Random, name: string, lines: readonly string[]): SlowFacts["headers"] {
  const record: Record<string, string | string[] | undefined> = {};
  for (const other of [...WALKED, "x-real-ip", "cf-connecting-ip", "true-client-ip"]) {
    if (random.whole(0, 5) === 0) record[other] = other === "forwarded" ? "for=192.0.2.66" : "192.0.2.66";
  }
  delete record[name];
  if (lines.length > 0) record[name] = lines.length === 1 && random.whole(0, 3) > 0 ? lines[0] : [...lines];
  // What can't be sent in a header is dropped by the Headers of some runtimes.
  if (random.whole(0, 9) > 0 || lines.some((line) => /[\r\n\0]/.test(line))) return record;
  try {
    const headers = new Headers();
    for (const [key, value] of Object.entries(record))
      for (const line of [value ?? []].flat()) headers.append(key, line);
    return headers;
  } catch {
    // Not every line may stand in a Headers, which is no reason to let it go untried.
    return record;
  }
}
