/** Tests lists of IP addresses: spellings, comments, exceptions, invalid input, and lookups against a slow oracle. */
import fc from "fast-check";
import { SluiceError } from "sluice";
import { ipList, type ListOptions } from "sluice/abuse";
import { describe, expect, it } from "vitest";
import { lookups } from "../../../test/abuse/listed-client.ts";
import { LIST } from "./list.ts";

const { hasIp } = lookups();

function errorOf(create: () => unknown): SluiceError {
  try {
    create();
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** The message of an error without the link at its end. */
const messageOf = (create: () => unknown) => errorOf(create).message.replace(/ See \S+$/, "");

describe("ipList", () => {
  it("finds addresses in ranges, from the first to the last address", () => {
    const list = ipList(["10.1.0.0/16", "192.0.2.7", "2001:db8:1::/48", "2001:db8::7"]);
    const listed = ["10.1.0.0", "10.1.255.255", "192.0.2.7", "2001:db8:1::", "2001:db8:1:ffff:ffff:ffff:ffff:ffff"];
    const others = ["10.0.255.255", "10.2.0.0", "192.0.2.6", "192.0.2.8", "2001:db8:0:ffff:ffff:ffff:ffff:ffff"];
    for (const ip of [...listed, "2001:db8::7"]) expect(hasIp(list, ip), ip).toBe(true);
    for (const ip of [...others, "2001:db8:2::", "2001:db8::6", "2001:db8::8", "::"])
      expect(hasIp(list, ip), ip).toBe(false);
  });

  it("finds the first and the last address of each family", () => {
    const list = ipList(["0.0.0.0", "255.255.255.255", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]);
    for (const ip of ["0.0.0.0", "255.255.255.255", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"])
      expect(hasIp(list, ip), ip).toBe(true);
    for (const ip of ["0.0.0.1", "255.255.255.254", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"])
      expect(hasIp(list, ip), ip).toBe(false);
  });

  it("finds every spelling of an address", () => {
    const list = ipList(["203.0.113.7", "2001:db8::a"]);
    const spellings = [
      ...["203.0.113.7", "203.0.113.7:443", "::ffff:203.0.113.7", "::FFFF:cb00:7107", "[::ffff:203.0.113.7]:443"],
      ...["64:ff9b::203.0.113.7", "64:ff9b::cb00:7107", "0:0:0:0:0:ffff:cb00:7107", " 203.0.113.7\t"],
      ...["2001:db8::a", "2001:DB8::A", "2001:0db8:0:0:0:0:0:000a", "[2001:db8::a]:80", "2001:db8::a%eth0"],
    ];
    for (const ip of spellings) expect(hasIp(list, ip), ip).toBe(true);
  });

  it("reads ranges of IPv4-mapped and NAT64 addresses as IPv4 ranges, and ignores bits after the prefix", () => {
    const list = ipList(["::ffff:192.0.2.0/120", "64:ff9b::198.51.100.0/126", "10.1.2.3/8"]);
    for (const ip of ["192.0.2.0", "192.0.2.255", "::ffff:192.0.2.9", "198.51.100.3", "10.0.0.0", "10.255.255.255"])
      expect(hasIp(list, ip), ip).toBe(true);
    for (const ip of ["192.0.1.255", "192.0.3.0", "198.51.100.4", "9.255.255.255", "11.0.0.0"])
      expect(hasIp(list, ip), ip).toBe(false);
  });

  it("merges ranges that overlap, touch or are equal", () => {
    const list = ipList(["10.0.0.0/25", "10.0.0.128/25", "10.0.0.7", "10.0.0.0/25", "10.0.1.0/24", "10.0.0.0/8"]);
    for (const ip of ["10.0.0.127", "10.0.0.128", "10.0.2.0", "10.255.255.255"]) expect(hasIp(list, ip), ip).toBe(true);
    expect(hasIp(list, "11.0.0.0")).toBe(false);
    const adjacent = ipList(["2001:db8::ffff:ffff", "2001:db8::1:0:0", "2001:db8:0:0:ffff:ffff:ffff:ffff"]);
    for (const ip of ["2001:db8::ffff:ffff", "2001:db8::1:0:0"]) expect(hasIp(adjacent, ip), ip).toBe(true);
    for (const ip of ["2001:db8::ffff:fffe", "2001:db8::1:0:1"]) expect(hasIp(adjacent, ip), ip).toBe(false);
  });

  it("finds addresses of the package's other build, which has classes of its own", () => {
    const list = ipList(["10.0.0.1", "2001:db8::a"]);
    const reports = { listRefreshed() {}, listStale() {}, providerDown() {} };
    const has = (address: object) => list[LIST].has({ address: () => address as never, key: () => undefined, reports });
    expect(has({ kind: () => "ipv4", octets: [10, 0, 0, 1] })).toBe(true);
    expect(has({ kind: () => "ipv4", octets: [10, 0, 0, 2] })).toBe(false);
    expect(has({ kind: () => "ipv6", parts: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 10] })).toBe(true);
    expect(has({ kind: () => "ipv6", parts: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 11] })).toBe(false);
  });

  it("does not list an unknown address", () => {
    const list = ipList(["0.0.0.0/1", "::/1"]);
    for (const ip of [undefined, "", "unknown", "unix:/socket"]) expect(hasIp(list, ip)).toBe(false);
  });

  it("never matches exceptions", () => {
    const list = ipList("10.0.0.0/8\n2001:db8::/32", { except: ["10.1.0.0/16", "::ffff:10.2.0.1", "2001:db8:1::/48"] });
    for (const ip of ["10.0.255.255", "10.2.0.0", "10.2.0.2", "2001:db8::1"]) expect(hasIp(list, ip), ip).toBe(true);
    for (const ip of ["10.1.0.0", "10.1.255.255", "10.2.0.1", "2001:db8:1::1", "11.0.0.0"])
      expect(hasIp(list, ip), ip).toBe(false);
  });

  it("reads text with comments, blank lines, carriage returns and a byte order mark", () => {
    const list = ipList(
      "\uFEFF10.0.0.0/8 ; SBL1\r\n\r\n# 11.0.0.0/8\r\n;12.0.0.0/8\n\t 13.0.0.0/8\t# a ; b\n   \n14.0.0.1",
    );
    for (const ip of ["10.0.0.1", "13.0.0.1", "14.0.0.1"]) expect(hasIp(list, ip), ip).toBe(true);
    for (const ip of ["11.0.0.1", "12.0.0.1", "14.0.0.2"]) expect(hasIp(list, ip), ip).toBe(false);
  });

  it("accepts an empty list", () => {
    for (const source of ["", "# nothing", []]) expect(hasIp(ipList(source), "10.0.0.1")).toBe(false);
  });

  it("answers without a promise, and has a name for events", () => {
    expect(hasIp(ipList(["10.0.0.1"]), "10.0.0.1")).toBe(true);
    expect(ipList([])[LIST].name).toBe("ipList");
    expect(ipList([], { name: "tor" })[LIST].name).toBe("tor");
  });

  it.each([
    ["10.0.0.1\n\n# x\n10.0.0.0/33", 'ipList: line 4: "10.0.0.0/33" is not an IP range; write it like "10.0.0.0/8".'],
    ["\r\n\r\n0.0.0.0/0 # all", 'ipList: line 3: "0.0.0.0/0" contains every IPv4 address.'],
    ["::/0", 'ipList: line 1: "::/0" contains every IPv6 address.'],
    ["::ffff:0:0/96", 'ipList: line 1: "::ffff:0:0/96" contains every IPv4 address.'],
    ["::ffff:1.2.3.4/90", 'ipList: line 1: "::ffff:1.2.3.4/90" contains every IPv4 address.'],
    ["64:ff9b::/96", 'ipList: line 1: "64:ff9b::/96" contains every IPv4 address.'],
    ["0.0.0.0/1\n128.0.0.0/1", "ipList: together, the ranges contain every IPv4 address."],
    ["::/2\n4000::/2\n8000::/1", "ipList: together, the ranges contain every IPv6 address."],
    ["fe80::1%eth0", 'ipList: line 1: "fe80::1%eth0" has a zone; write the address without it.'],
    ["010.0.0.1", 'ipList: line 1: "010.0.0.1" is not an IP range; write it like "10.0.0.0/8".'],
    [["10.0.0.1", ""], 'ipList: source[1]: "" is not an IP range; write it like "10.0.0.0/8".'],
    [
      ["10.0.0.1\n10.0.0.2"],
      'ipList: source[0]: "10.0.0.1\\n10.0.0.2" is not an IP range; write it like "10.0.0.0/8".',
    ],
    [[42], 'ipList: source[0]: 42 is not an IP range; write it like "10.0.0.0/8".'],
    [new Array(1), 'ipList: source[0]: undefined is not an IP range; write it like "10.0.0.0/8".'],
    [
      "https://example.com/list.txt",
      'ipList: line 1: "https://example.com/list.txt" is a URL; pass a function that returns the text, such as async () => (await fetch(url)).text().',
    ],
    [{}, "source must be an array of ranges, text, or a function that loads text, but received an object."],
    [undefined, "source must be an array of ranges, text, or a function that loads text, but received undefined."],
  ])("rejects the source %j", (source, message) => {
    expect(errorOf(() => ipList(source as string)).code).toBe("invalid-option");
    expect(messageOf(() => ipList(source as string))).toBe(message);
  });

  it.each<[unknown, string]>([
    [{ except: ["0.0.0.0/0"] }, 'ipList: except[0]: "0.0.0.0/0" contains every IPv4 address.'],
    [{ except: "10.0.0.1" }, 'except must be an array of entries of the list, but received "10.0.0.1".'],
    [{ name: "" }, 'name must be a non-empty string of at most 100 characters, but received "".'],
    [
      { refresh: "1h" },
      "refresh has no effect on a list that is not loaded. Pass a function that loads the list to ipList.",
    ],
    [{ exclude: [] }, '"exclude" is not an option of ipList. Use refresh, except, name, waitUntil.'],
    [null, "Expected an object for ipList, but received null."],
  ])("rejects the options %j", (options, message) => {
    expect(messageOf(() => ipList([], options as ListOptions))).toBe(message);
  });

  it.each<[unknown, string]>([
    [{ refresh: 999 }, "refresh must be a whole number >= 1000, but received 999."],
    [
      { refresh: "1 w" },
      'refresh must be a number of milliseconds, or text such as "250ms", "1s", "5m", "1h" or "30d", but received "1 w".',
    ],
    [{ waitUntil: true }, "waitUntil must be a function that takes a promise, but received true."],
  ])("rejects the options %j of a loaded list", (options, message) => {
    expect(messageOf(() => ipList(async () => "", options as ListOptions))).toBe(message);
  });

  it("rejects more than a million ranges, and long text", () => {
    expect(messageOf(() => ipList("10.0.0.1\n".repeat(1_000_001)))).toBe(
      "ipList: the list has more than 1000000 ranges.",
    );
    expect(messageOf(() => ipList("#".repeat(64 * 2 ** 20 + 1)))).toBe(
      "ipList: the text has more than 67108864 characters.",
    );
  });

  it("has a short copy of an invalid line in its error", () => {
    const error = errorOf(() => ipList(`<html>${"/".repeat(1_000_000)}`));
    expect(error.received).toBe(`<html>${"/".repeat(94)}`);
    expect(error.message.length).toBeLessThan(250);
  });
});

/** An address or the base of a range. */
interface Bits {
  readonly width: 32 | 128;
  readonly value: bigint;
}

interface Cidr extends Bits {
  readonly prefix: number;
}

/** The oracle: compares prefixes of numbers, one range after the other. */
const isInOne = (ranges: readonly Cidr[], { width, value }: Bits) =>
  ranges.some((range) => {
    const shift = BigInt(width - range.prefix);
    return range.width === width && range.value >> shift === value >> shift;
  });

function textOf({ width, value }: Bits): string {
  const size = width === 32 ? 8n : 16n;
  const parts: string[] = [];
  for (let shift = BigInt(width) - size; shift >= 0n; shift -= size) {
    parts.push(((value >> shift) & ((1n << size) - 1n)).toString(width === 32 ? 10 : 16));
  }
  return parts.join(width === 32 ? "." : ":");
}

/** Numbers close to each other and to the ends, so that ranges overlap, touch and contain what is looked up. */
function numbers(width: 32 | 128): fc.Arbitrary<Bits> {
  const last = (1n << BigInt(width)) - 1n;
  const word = 0xffffffffn;
  const bases =
    width === 32
      ? [0n, 0x0a000000n, last]
      : [0x2001n << 112n, (0x2001n << 112n) | word, (0x2001n << 112n) | (word << 32n), last];
  return (
    fc
      .tuple(fc.constantFrom(...bases), fc.oneof(fc.bigInt(-40n, 40n), fc.bigInt(-last, last)))
      .map(([base, offset]) => ({ width, value: (((base + offset) % (last + 1n)) + last + 1n) % (last + 1n) }))
      // These addresses embed IPv4 ones.
      .filter(({ value }) => width === 32 || (value >> 32n !== 0xffffn && value >> 32n !== 0x64ff9bn << 64n))
  );
}

function ranges(width: 32 | 128): fc.Arbitrary<Cidr> {
  return fc
    .tuple(numbers(width), fc.oneof(fc.integer({ min: width - 6, max: width }), fc.integer({ min: 2, max: width })))
    .map(([bits, prefix]) => ({ ...bits, prefix }));
}

describe("lookups", () => {
  const list = fc.array(fc.oneof(ranges(32), ranges(128)), { maxLength: 40 });
  const probes = fc.array(fc.oneof(numbers(32), numbers(128)), { minLength: 1, maxLength: 40 });

  it("are equal to a slow oracle, also at both ends of each range", () => {
    fc.assert(
      fc.property(list, list, probes, (listed, except, addresses) => {
        const isEverything = [32, 128].some((width) => isAll(listed, width) || isAll(except, width));
        fc.pre(!isEverything);
        const lines = listed.map((range) => `${textOf(range)}/${range.prefix}`);
        const subject = ipList(lines.join("\n"), {
          except: except.map((range) => `${textOf(range)}/${range.prefix}`),
        });
        for (const address of [...addresses, ...[...listed, ...except].flatMap(endsOf)]) {
          const expected = isInOne(listed, address) && !isInOne(except, address);
          expect(hasIp(subject, textOf(address)), textOf(address)).toBe(expected);
          if (address.width === 32) {
            expect(hasIp(subject, `::ffff:${textOf(address)}`)).toBe(expected);
            expect(hasIp(subject, `64:ff9b::${textOf(address)}`)).toBe(expected);
          }
        }
      }),
      { numRuns: 2000 },
    );
  });
});

/** The addresses at both ends of a range, and those before and after them. */
function endsOf({ width, value, prefix }: Cidr): Bits[] {
  const size = 1n << BigInt(width - prefix);
  const first = (value / size) * size;
  return [first - 1n, first, first + size - 1n, first + size]
    .filter((end) => end >= 0n && end < 1n << BigInt(width))
    .filter((end) => width === 32 || (end >> 32n !== 0xffffn && end >> 32n !== 0x64ff9bn << 64n))
    .map((end) => ({ width, value: end }));
}

/** Whether ranges contain every address of a width. Counts them, from the first address on. */
function isAll(listed: readonly Cidr[], width: number): boolean {
  const same = listed.filter((range) => range.width === width);
  let next = 0n;
  for (;;) {
    const covering = same.find((range) => {
      const shift = BigInt(width - range.prefix);
      return range.value >> shift === next >> shift;
    });
    if (!covering) return false;
    const size = 1n << BigInt(width - covering.prefix);
    next = (next / size + 1n) * size;
    if (next >= 1n << BigInt(width)) return true;
  }
}
