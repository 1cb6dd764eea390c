/** Random addresses, header entries and requests, many of them malformed or forged. */
import type { Random } from "../../src/testing/random.ts";
import {
  bitsOf,
  canonicalAddress,
  consistsOf,
  contains,
  DIGITS,
  numbersOf,
  type Range,
  type ReferenceRequest,
  type ReferenceTrust,
  rangeOf,
  TOKEN,
  trimmed,
  unmapped,
} from "./reference-client-ip.ts";

/** Four parts of 8 bits, or eight groups of 16. */
export type Numbers = readonly number[];

const INTERESTING = [0, 0, 0, 0, 1, 0xf, 0xff, 0x100, 0xdb8, 0x2001, 0xfe80, 0xffff];

/** A random address with many zeros. */
export function anyAddress(random: Random): Numbers {
  return random.whole(0, 1) === 0 ? anyV4(random) : anyV6(random);
}

export function anyV4(random: Random): Numbers {
  return Array.from({ length: 4 }, () => (random.whole(0, 5) === 0 ? random.pick([0, 1, 255]) : random.whole(0, 255)));
}

/** A random IPv6 address that does not embed an IPv4 one, but often looks similar. */
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

/** A random notation of an address, without brackets and port. */
export function randomNotation(random: Random, address: Numbers): string {
  if (address.length === 8) return randomV6Notation(random, address);
  const kind = random.whole(0, 5);
  const last = [Number(address[0]) * 256 + Number(address[1]), Number(address[2]) * 256 + Number(address[3])];
  if (kind === 0) return randomV6Notation(random, [0, 0, 0, 0, 0, 0xffff, ...last]);
  if (kind === 1) return randomV6Notation(random, [0x64, 0xff9b, 0, 0, 0, 0, ...last]);
  return address.join(".");
}

function randomV6Notation(random: Random, groups: Numbers): string {
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
export function randomEntry(random: Random, address: Numbers): string {
  let text = randomNotation(random, address);
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

/** The text after one to three random edits: characters removed, doubled, replaced or inserted. */
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
  if (kind === 0) return mutated(random, randomEntry(random, anyAddress(random)));
  if (kind === 1) return Array.from({ length: random.whole(0, 20) }, () => random.pick(EDITS)).join("");
  if (kind === 2)
    return String.fromCharCode(...Array.from({ length: random.whole(1, 12) }, () => random.whole(0, 255)));
  return random.pick(GARBAGE);
}

/** A well-formed element of a Forwarded header for an address. */
export function forwardedElement(random: Random, address: Numbers): string {
  let text = trimmed(randomEntry(random, address));
  if (text.includes(":") && text[0] !== "[" && !text.includes(".")) text = `[${text}]`;
  // With colons and dots it is either v4:port, or IPv6 with a dotted end, which requires brackets.
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

/** A token if possible, or a quoted string with some unnecessary escapes. */
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

/** A random rule for trustedProxies, with host bits. */
export function anyRule(random: Random): string {
  const kind = random.whole(0, 9);
  if (kind <= 3) return `${anyV4(random).join(".")}/${random.whole(random.pick([1, 8, 16]), 32)}`;
  if (kind <= 6) return `${randomV6Notation(random, anyV6(random))}/${random.whole(random.pick([1, 16, 48]), 128)}`;
  if (kind === 7) return `::ffff:${anyV4(random).join(".")}/${random.whole(random.pick([97, 104]), 128)}`;
  if (kind === 8) return random.pick(["::ffff:", "::FFFF:", ""]) + anyV4(random).join(".");
  return randomV6Notation(random, anyV6(random));
}

/** An address in a range, or one that differs in one bit of the prefix. */
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

/** A server with a trust rule. */
export interface Server {
  readonly trust: ReferenceTrust;
  readonly header: string;
  /** The ranges of its proxies, which some trust rules ignore. */
  readonly ranges: readonly Range[];
}

export function anyServer(random: Random): Server {
  const rules = Array.from({ length: random.whole(1, 4) }, () => anyRule(random));
  const ranges = rules.map(rangeOf);
  const header = random.pick([...LIST_HEADERS, ...LIST_HEADERS, "x-real-ip"]);
  if (random.whole(0, 49) === 0) return { trust: random.pick([undefined, "peer"]), header, ranges };
  const trustedProxies = random.whole(0, 2) === 0 ? random.whole(1, 5) : rules;
  const isNamed = header !== "x-forwarded-for" || random.whole(0, 1) === 0;
  return { trust: isNamed ? { trustedProxies, header } : { trustedProxies }, header, ranges };
}

/** A request that may be honest, forged or malformed. */
export function anyRequest(random: Random, { header, ranges }: Server): ReferenceRequest {
  const address = (): Numbers => {
    const kind = random.whole(0, 9);
    return kind <= 6 ? addressNear(random, random.pick(ranges), kind > 0) : anyAddress(random);
  };
  const entry = (): string => {
    const isBroken = random.whole(0, 11) === 0;
    if (header !== "forwarded") return isBroken ? garbage(random) : randomEntry(random, address());
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

/** A request of a real client through real proxies, each of which has appended the address it saw. */
export interface HonestRequest {
  readonly request: ReferenceRequest;
  readonly client: string;
  /** Whether the client sent the header itself. */
  readonly isForged: boolean;
}

/** `undefined` if the server reads no list header, or if the addresses do not match its rules. */
export function honestRequest(random: Random, { trust, header, ranges }: Server): HonestRequest | undefined {
  if (typeof trust !== "object" || header === "x-real-ip") return undefined;
  const { trustedProxies } = trust;
  const isProxy = (address: Numbers): boolean => {
    const bits = unmapped(address.map((number) => bitsOf(number, address.length === 4 ? 8 : 16)).join(""));
    return ranges.some((range) => contains(range, bits));
  };
  const hops = typeof trustedProxies === "number" ? trustedProxies : undefined;
  const client = anyAddress(random);
  const proxies = Array.from({ length: hops ?? random.whole(1, 5) }, () => {
    return hops === undefined ? addressNear(random, random.pick(ranges), true) : anyAddress(random);
  });
  // An IPv6 range may contain IPv4-mapped addresses, which are not in it once they are read as IPv4.
  if (hops === undefined && (isProxy(client) || !proxies.every(isProxy))) return undefined;

  const lines = Array.from({ length: random.whole(0, 3) }, () => forgedLine(random, header));
  const isForged = lines.length > 0;
  for (const seen of [client, ...proxies.slice(0, -1)]) {
    const entry = header === "forwarded" ? forwardedElement(random, seen) : randomEntry(random, seen);
    if (lines.length === 0 || random.whole(0, 3) === 0) lines.push(entry);
    else lines[lines.length - 1] += `,${random.pick(["", " "])}${entry}`;
  }
  const peer = randomEntry(random, proxies.at(-1) as Numbers);
  const request = { peer, headers: asHeaders(random, header, lines) };
  return { request, client: canonicalAddress(plain(client)) as string, isForged };
}

const TRICKS = words('for=" " \\" \\ "\\ for="1.1.1.1 ;x=" for= , ", x="\\\\ for=1.1.1.1;x=');

function forgedLine(random: Random, header: string): string {
  const parts = Array.from({ length: random.whole(0, 5) }, () => {
    const kind = random.whole(0, 3);
    if (kind === 0) return random.pick(TRICKS);
    if (kind === 1) return garbage(random);
    return header === "forwarded"
      ? forwardedElement(random, anyAddress(random))
      : randomEntry(random, anyAddress(random));
  });
  if (random.whole(0, 199) === 0) parts.push(random.pick(['"', ",", "\\", "1.1.1.1,", 'for="a",']).repeat(2500));
  return parts.join(random.pick([",", ", ", ";", ""]));
}

/** The simplest notation of an address. */
export function plain(address: Numbers): string {
  return address.length === 4 ? address.join(".") : address.map((group) => group.toString(16)).join(":");
}

const LIST_HEADERS = ["x-forwarded-for", "forwarded"] as const;

function anyPeer(random: Random, ranges: readonly Range[]): string | undefined {
  const kind = random.whole(0, 19);
  if (kind === 0) return random.pick([undefined, "", garbage(random)]);
  if (kind === 1) return randomEntry(random, anyAddress(random));
  return randomEntry(random, addressNear(random, random.pick(ranges), kind > 2));
}

/** The lines as a plain object or as `Headers`, besides other headers that must not be read. */
function asHeaders(random: Random, name: string, lines: readonly string[]): ReferenceRequest["headers"] {
  const record: Record<string, string | string[] | undefined> = {};
  for (const other of [...LIST_HEADERS, "x-real-ip", "cf-connecting-ip", "true-client-ip"]) {
    if (random.whole(0, 5) === 0) record[other] = other === "forwarded" ? "for=192.0.2.66" : "192.0.2.66";
  }
  delete record[name];
  if (lines.length > 0) record[name] = lines.length === 1 && random.whole(0, 3) > 0 ? lines[0] : [...lines];
  // Some runtimes drop characters that a header can't contain.
  if (random.whole(0, 9) > 0 || lines.some((line) => /[\r\n\0]/.test(line))) return record;
  try {
    const headers = new Headers();
    for (const [key, value] of Object.entries(record))
      for (const line of [value ?? []].flat()) headers.append(key, line);
    return headers;
  } catch {
    // Not every line is accepted by Headers.
    return record;
  }
}
