/** A set of IP addresses that is built from ranges in text. */
import { copyKey } from "../../base/copy-key.ts";
import { SluiceError, show } from "../../base/errors.ts";
import type { Steps } from "../../base/slices.ts";
import { type Address, type RangeProblem, readRange, writeWords } from "../../http/identity/address.ts";
import { RangeBuilder, type SortedRanges } from "./sorted-ranges.ts";

/** A set of IP addresses. */
export class AddressSet {
  private readonly ipv4: SortedRanges;
  private readonly ipv6: SortedRanges;
  private readonly words: Uint32Array = new Uint32Array(4);

  constructor(ipv4: SortedRanges, ipv6: SortedRanges) {
    this.ipv4 = ipv4;
    this.ipv6 = ipv6;
  }

  has(address: Address): boolean {
    return (writeWords(address, this.words) === 1 ? this.ipv4 : this.ipv6).has(this.words);
  }
}

/** Ranges of a list before they are merged. */
const MAX_RANGES = 1_000_000;
/** Length of a text. A million of the longest ranges have 44 million characters. */
const MAX_TEXT_CHARS = 64 * 2 ** 20;
/** Characters of an invalid line that its error has as data. */
const MAX_RECEIVED_CHARS = 100;
/** Lines that are parsed between two steps. */
const LINES_PER_STEP = 128;

/** Builds a set from text with one range per line. `#` and `;` start a comment. */
export function readText(text: string): Steps<AddressSet> {
  if (text.length > MAX_TEXT_CHARS) throw sourceError(`the text has more than ${MAX_TEXT_CHARS} characters.`);
  return readRanges(
    linesOf(text),
    (i) => `line ${i + 1}`,
    (line) => line !== "",
  );
}

/** Builds a set from an array of ranges. `option` is the name of the array. */
export function readArray(ranges: readonly unknown[], option: string): Steps<AddressSet> {
  return readRanges(
    ranges,
    (i) => `${option}[${i}]`,
    () => true,
  );
}

function* readRanges(
  entries: Iterable<unknown>,
  where: (index: number) => string,
  isRange: (entry: unknown) => boolean,
): Steps<AddressSet> {
  const [ipv4, ipv6] = [new RangeBuilder(1), new RangeBuilder(4)];
  const words = new Uint32Array(4);
  let [index, count] = [-1, 0];
  for (const entry of entries) {
    if (++index % LINES_PER_STEP === 0) yield;
    if (!isRange(entry)) continue;
    const range = readRange(entry);
    if (typeof range === "string") throw sourceError(`${where(index)}: ${describeProblem(entry, range)}`, entry);
    if (++count > MAX_RANGES) throw sourceError(`the list has more than ${MAX_RANGES} ranges.`);
    const [base, prefix] = range;
    (writeWords(base, words) === 1 ? ipv4 : ipv6).add(words, prefix);
  }
  const set: [SortedRanges, SortedRanges] = [yield* ipv4.build(), yield* ipv6.build()];
  // Such as 0.0.0.0/1 and 128.0.0.0/1.
  for (const [i, ranges] of set.entries()) {
    if (ranges.isEverything)
      throw sourceError(`together, the ranges contain every ${i === 0 ? "IPv4" : "IPv6"} address.`);
  }
  return new AddressSet(...set);
}

/** The lines of a text without comments. Split one by one: `text.split` would take too long for one slice. */
function* linesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline;
    const line = text.slice(start, end);
    const comment = line.search(/[#;]/);
    // Removes carriage returns and the byte order mark as well.
    yield (comment < 0 ? line : line.slice(0, comment)).trim();
    start = end + 1;
  }
}

function describeProblem(entry: unknown, problem: RangeProblem): string {
  if (problem === "zone") return `${show(entry)} has a zone; write the address without it.`;
  if (problem === "every-ipv4") return `${show(entry)} contains every IPv4 address.`;
  if (problem === "every-ipv6") return `${show(entry)} contains every IPv6 address.`;
  if (typeof entry === "string" && /^https?:\/\//.test(entry)) {
    return `${show(entry)} is a URL; pass a function that returns the text, such as async () => (await fetch(url)).text().`;
  }
  return `${show(entry)} is not an IP range; write it like "10.0.0.0/8".`;
}

function sourceError(problem: string, entry?: unknown): SluiceError {
  const expected = "IP addresses and ranges such as 10.0.0.0/8 or 2001:db8::/32";
  // A copy of the start, because a line is a slice that retains the whole text.
  const received = typeof entry === "string" ? copyKey(entry.slice(0, MAX_RECEIVED_CHARS)) : entry;
  return new SluiceError("invalid-option", `ipList: ${problem}`, { option: "source", expected, received });
}
