/** `clientIp` and `clientKey` against header lists by hand, many notations of one address, and random requests. */

import { BlockList, isIP } from "node:net";
import { SluiceError } from "sluice";
import { clientIp, clientKey, type Identity, type Preset, type Trust } from "sluice/http";
import { describe, expect, test } from "vitest";
import { scaled } from "../../scripts/scale.js";
import { type Random, randomFrom } from "../../src/testing/random.ts";
import { CHAINS, CLIENT, forwarded, list, PEER, single, TRUSTED } from "./chains.ts";
import {
  addressNear,
  anyAddress,
  anyRequest,
  anyRule,
  anyServer,
  anyV4,
  anyV6,
  forwardedElement,
  garbage,
  honestRequest,
  mutated,
  type Numbers,
  plain,
  randomEntry,
  randomNotation,
} from "./random-requests.ts";
import {
  canonicalAddress,
  isInRange,
  type ReferenceRequest,
  type ReferenceTrust,
  rangeOf,
  referenceClientIp,
} from "./reference-client-ip.ts";

/**
 * 100 000 random requests, multiplied by SLUICE_SCALE. Several requests to one server share a seed, so the seed that a
 * failure prints reproduces it with SLUICE_SCALE=0.00001, which is one request.
 */
const CASES = scaled(100_000);
const REQUESTS = 8;
const TIMEOUT_MS = 60_000 + CASES;
const SEED = setting("SLUICE_SEED", Math.floor(Math.random() * 2 ** 30));

describe("clientIp", () => {
  test("is tested with at least 40 header lists", () => expect(CHAINS.length).toBeGreaterThanOrEqual(40));

  test.each(CHAINS.map((chain) => ({ what: chain[0], chain })))("finds the client: $what", ({ chain }) => {
    const [, trust, lines, expected, peer = PEER] = chain;
    const name = typeof trust === "object" ? ((trust as { header?: string }).header ?? "x-forwarded-for") : "forwarded";
    const request = { peer: peer === "" ? undefined : peer, headers: { [name]: lines } };
    expect(referenceClientIp(request, trust), "the reference").toBe(expected);
    expect(clientIp(request, trust)).toBe(expected);
    const headers = new Headers();
    for (const line of [lines ?? []].flat()) headers.append(name, line);
    // Headers joins lines with a space as well; no two lines here reach the length limit.
    expect(clientIp({ ...request, headers }, trust), "as Headers").toBe(expected);
  });

  test("trusts no header by default", () => {
    const headers = { "x-forwarded-for": "1.1.1.1", forwarded: "for=1.1.1.1", "x-real-ip": "1.1.1.1" };
    expect(clientIp({ peer: PEER, headers })).toBe(PEER);
    expect(clientIp({ headers })).toBeUndefined();
  });

  test("reads only the header that is named", () => {
    expect(clientIp({ peer: PEER, headers: { forwarded: "for=1.1.1.1", "x-real-ip": "1.1.1.1" } }, list)).toBe(PEER);
    expect(clientIp({ peer: PEER, headers: { "x-forwarded-for": "1.1.1.1" } }, forwarded)).toBe(PEER);
    expect(clientIp({ peer: PEER, headers: { "x-forwarded-for": "1.1.1.1" } }, single)).toBe(PEER);
  });

  test.each<[Preset, string]>([
    ["cloudflare", "cf-connecting-ip"],
    ["vercel", "x-vercel-forwarded-for"],
    ["netlify", "x-nf-client-connection-ip"],
    ["fly", "fly-client-ip"],
    ["fastly", "fastly-client-ip"],
    ["aws", "x-forwarded-for"],
    ["nginx", "x-real-ip"],
  ])("reads only its own header with the preset %s: %s", (preset, name) => {
    const trust = { preset, trustedProxies: TRUSTED };
    expect(clientIp({ peer: PEER, headers: { [name]: CLIENT } }, trust)).toBe(CLIENT);
    expect(clientIp({ peer: PEER, headers: { [name]: "unknown" } }, trust)).toBe(PEER);
    expect(clientIp({ peer: PEER, headers: { "true-client-ip": CLIENT, "x-client-ip": CLIENT } }, trust)).toBe(PEER);
  });

  test.each([
    ...["fastly", "aws", "nginx", { preset: "aws" }, "express", true, 1, null],
    ...[true, 0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "10.0.0.0/8", null].map((trustedProxies) => ({
      trustedProxies,
    })),
    ...[
      "",
      "10.0.0.0/33",
      "10.0.0.0/-1",
      "10.0.0.0/",
      "10.0.0.0/8/8",
      "10.0.0.0/08",
      "10.0.0.0/8.0",
      "10.0.0.0/ 8",
    ].map(one),
    ...["010.0.0.0/8", "10.0.0/8", "10/8", "0x0a.0.0.0/8", "::/129", "2001:db8::/064", "g::/8", "::1::/8", "/8"].map(
      one,
    ),
    ...["fe80::1%eth0/64", "fe80::1%eth0", "::ffff:10.0.0.0%1/104"].map(one),
    ...["unknown", "localhost", "*", "::ffff:10.0.0.0/129", "10.0.0.0/+8", "10.0.0.0/1e1", "10.0.0.0/0x8"].map(one),
  ])("throws for the trust rule %j", (trust) => {
    expect(() => clientIp({ peer: PEER, headers: {} }, trust as Trust)).toThrow(SluiceError);
  });

  function one(rule: string) {
    return { trustedProxies: ["10.0.0.0/8", rule] };
  }
});

describe("clientKey", () => {
  const keyOf = (peer: string | undefined, identity?: Identity) => clientKey({ peer, headers: {} }, identity);

  test("returns one key for 8 notations of an address, for 10 000 addresses", async () => {
    const random = randomFrom(SEED);
    const owners = new Map<string, string>();
    for (let count = 0; count < 10_000; count++) {
      const address = count % 2 === 0 ? anyV4(random) : anyV6(random);
      const notations = address.length === 4 ? v4Notations(address) : v6Notations(random, address);
      if (new Set(notations).size !== 8) fail(`not 8 notations: ${notations.join(" ")}`);
      const keys = new Set(await Promise.all(notations.map((notation) => keyOf(notation))));
      if (keys.size !== 1) fail(`${notations.join(" ")} are ${[...keys].join(" ")}`);
      const [key = ""] = keys;
      // One key is one IPv4 address, or 56 bits of an IPv6 address.
      const owner =
        address.length === 4 ? address.join(".") : [...address.slice(0, 3), Number(address[3]) >> 8].join(":");
      if ((owners.get(key) ?? owner) !== owner) fail(`${key} is both ${owners.get(key)} and ${owner}`);
      owners.set(key, owner);
    }
    expect(owners.size).toBeGreaterThan(8000);
  });

  test("returns different keys for two IPv4 clients, also if they are IPv4-mapped", async () => {
    expect(await keyOf("203.0.113.7")).toBe("ip:203.0.113.7");
    expect(await keyOf("203.0.113.8")).toBe("ip:203.0.113.8");
    expect(await keyOf("::ffff:203.0.113.8")).toBe("ip:203.0.113.8");
    expect(await keyOf("64:ff9b::cb00:7107")).toBe("ip:203.0.113.7");
  });

  test("returns one key for 100 000 addresses of one /56, and others for its neighbours", async () => {
    const network = rangeOf("2001:db8:1:200::/56");
    const random = randomFrom(SEED);
    const keys = new Set<string | undefined>();
    for (let count = 0; count < 100_000; count++) {
      keys.add(await keyOf(randomNotation(random, addressNear(random, network, true))));
    }
    expect([...keys]).toEqual(["ip:2001:db8:1:200::/56"]);
    expect(await keyOf("2001:db8:1:1ff:ffff:ffff:ffff:ffff")).toBe("ip:2001:db8:1:100::/56");
    expect(await keyOf("2001:db8:1:300::")).toBe("ip:2001:db8:1:300::/56");
    for (let count = 0; count < 1000; count++) {
      const neighbour = addressNear(random, network, false);
      expect(keys).not.toContain(await keyOf(randomNotation(random, neighbour)));
    }
  });

  test("accepts a prefix of 32 to 64 bits", async () => {
    const address = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff";
    for (let ipv6Prefix = 32; ipv6Prefix <= 64; ipv6Prefix++) {
      const key = await keyOf(address, { ipv6Prefix });
      expect(key?.endsWith(`/${ipv6Prefix}`)).toBe(true);
      const network = key?.slice(3) ?? "";
      expect(isInRange(address, rangeOf(network))).toBe(true);
      // The host part is zero.
      const low = network.split("/")[0] as string;
      const list = new BlockList();
      list.addSubnet(low, ipv6Prefix, "ipv6");
      expect(list.check(address, "ipv6")).toBe(true);
      if (ipv6Prefix < 64) expect(isInRange(low, rangeOf(`${address}/${ipv6Prefix + 1}`))).toBe(false);
      expect(await keyOf("203.0.113.7", { ipv6Prefix })).toBe("ip:203.0.113.7");
    }
    for (const ipv6Prefix of [31, 65, 0, -56, 128, 56.5, Number.NaN, "56", null]) {
      await expect(keyOf(address, { ipv6Prefix } as Identity)).rejects.toThrow(SluiceError);
    }
  });

  test("throws without an address, unless unidentified is share", async () => {
    for (const peer of [undefined, "", "unknown", "/run/sluice.sock", "010.0.0.1"]) {
      await expect(keyOf(peer)).rejects.toMatchObject({ name: "SluiceError", code: "unidentified" });
    }
    const shared = await keyOf(undefined, { unidentified: "share" });
    expect(await keyOf("unknown", { unidentified: "share" })).toBe(shared);
    expect(await keyOf("0.0.0.0", { unidentified: "share" })).not.toBe(shared);
  });

  test.each<[string, Identity | undefined]>([
    ["default identity", undefined],
    ["identity peer", "peer"],
    ["an untrusted peer", list],
    ["an untrusted peer with Forwarded", forwarded],
    ["an untrusted peer with x-real-ip", single],
  ])("returns one key for 10 000 requests of one socket with forged headers: %s", async (_what, identity) => {
    const random = randomFrom(SEED);
    const keys = new Set<string | undefined>();
    for (let count = 0; count < 10_000; count++) {
      const address = anyAddress(random);
      const headers = {
        "x-forwarded-for": randomEntry(random, address),
        forwarded: forwardedElement(random, address),
        "x-real-ip": address.length === 4 ? address.join(".") : randomNotation(random, address),
      };
      keys.add(await clientKey({ peer: "198.51.100.9", headers }, identity));
    }
    expect([...keys]).toEqual(["ip:198.51.100.9"]);
  });
});

describe("clientIp with random requests", () => {
  test(`agrees with the reference for ${CASES} requests`, { timeout: TIMEOUT_MS }, () => {
    const tally = { peer: 0, other: 0, unidentified: 0 };
    forEachSeed(CASES, (random) => {
      const server = anyServer(random);
      for (let count = 0; count < REQUESTS; count++) {
        const request = anyRequest(random, server);
        const expected = referenceClientIp(request, server.trust);
        compare(random, request, server.trust, expected);
        if (expected === undefined) tally.unidentified++;
        else if (request.peer !== undefined && expected === canonicalAddress(request.peer)) tally.peer++;
        else tally.other++;
      }
    });
    // Each kind of result occurred often.
    if (CASES >= 10_000) for (const times of Object.values(tally)) expect(times).toBeGreaterThan(CASES / 100);
  });

  test(`ignores entries that a client sent, for ${Math.ceil(CASES / 4)} requests`, { timeout: TIMEOUT_MS }, () => {
    const tally = { forged: 0, plain: 0 };
    forEachSeed(CASES / 4, (random) => {
      const server = anyServer(random);
      for (let count = 0; count < REQUESTS; count++) {
        const request = honestRequest(random, server);
        if (request === undefined) continue;
        compare(random, request.request, server.trust, request.client);
        tally[request.isForged ? "forged" : "plain"]++;
      }
    });
    if (CASES >= 10_000) expect(tally.forged).toBeGreaterThan(CASES / 4 / 3);
  });

  test(`agrees with the reference for ${Math.ceil(CASES / 4)} malformed peers`, { timeout: TIMEOUT_MS }, () => {
    forEachSeed(CASES / 4, (random) => {
      for (let count = 0; count < REQUESTS; count++) {
        const peer =
          random.whole(0, 1) === 0 ? garbage(random) : mutated(random, randomEntry(random, anyAddress(random)));
        compare(random, { peer, headers: {} }, undefined, canonicalAddress(peer));
      }
    });
  });

  function forEachSeed(requests: number, run: (random: Random) => void): void {
    for (let count = 0; count * REQUESTS < requests; count++) run(randomFrom(SEED + count));
  }

  function compare(
    { seed }: Random,
    request: ReferenceRequest,
    trust: ReferenceTrust,
    expected: string | undefined,
  ): void {
    let result: string | undefined;
    try {
      result = clientIp(request, trust);
    } catch (error) {
      result = `with ${error}`;
    }
    if (result === expected) return;
    const headers = request.headers instanceof Headers ? Object.fromEntries(request.headers) : request.headers;
    const shown = JSON.stringify({ peer: request.peer, headers, trust });
    throw new Error(`SLUICE_SEED=${seed} SLUICE_SCALE=0.00001: expected ${expected}, but got ${result} for ${shown}`);
  }
});

describe("the reference implementation", () => {
  test("accepts the addresses that Node accepts", () => {
    const random = randomFrom(SEED);
    const tally = { valid: 0, invalid: 0 };
    for (let count = 0; count < 50_000; count++) {
      const plain = randomNotation(random, anyAddress(random));
      const text = random.pick([plain, mutated(random, plain), garbage(random)]);
      // Node accepts no brackets, blanks or ports, has no length limit, and treats zones differently.
      if (/[[\] \t%]/.test(text) || /^[^:]*:[^:]*$/.test(text) || text.length > 100) continue;
      const known = canonicalAddress(text);
      if ((known !== undefined) !== (isIP(text) !== 0)) fail(`${JSON.stringify(text)} is ${known}`);
      tally[known === undefined ? "invalid" : "valid"]++;
    }
    expect(Math.min(tally.valid, tally.invalid)).toBeGreaterThan(5000);
  });

  test("writes addresses as a URL does", () => {
    const random = randomFrom(SEED);
    let refused = 0;
    for (let count = 0; count < 20_000; count++) {
      const text = randomNotation(random, anyV6(random));
      if (!URL.canParse(`http://[${text}]/`)) {
        refused++;
        continue;
      }
      const { hostname } = new URL(`http://[${text}]/`);
      if (`[${canonicalAddress(text)}]` !== hostname) fail(`${text} is ${hostname}, not ${canonicalAddress(text)}`);
    }
    // Bun 1.4 rejects the valid address `1:0::1.2.3.4`.
    expect(refused).toBeLessThan(process.versions.bun ? 400 : 1);
  });

  test("matches rules as Node's BlockList does", () => {
    const random = randomFrom(SEED);
    const tally = { in: 0, out: 0 };
    for (let count = 0; count < 20_000; count++) {
      const rule = anyRule(random);
      const [network = "", length] = rule.split("/");
      const range = rangeOf(rule);
      const address = addressNear(random, range, random.whole(0, 1) === 0);
      // IPv4-mapped addresses and rules are IPv4 here; BlockList treats both differently.
      const isOurs = canonicalAddress(plain(address))?.includes(":") !== (address.length === 8);
      if (isOurs || network.toLowerCase().startsWith("::ffff:")) continue;
      const family = address.length === 4 ? "ipv4" : "ipv6";
      const list = new BlockList();
      list.addSubnet(network, Number(length ?? (family === "ipv4" ? 32 : 128)), family);
      const text = address.length === 4 ? address.join(".") : randomNotation(random, address);
      const isInside = isInRange(text, range);
      if (isInside !== list.check(text, family)) fail(`${text} ${isInside ? "is" : "is not"} in ${rule}`);
      tally[isInside ? "in" : "out"]++;
    }
    expect(Math.min(tally.in, tally.out)).toBeGreaterThan(3000);
  });
});

function fail(what: string): never {
  throw new Error(`SLUICE_SEED=${SEED}: ${what}`);
}

function v4Notations(address: Numbers): string[] {
  const text = address.join(".");
  const [a = 0, b = 0, c = 0, d = 0] = address;
  const [high, low] = [(a * 256 + b).toString(16), (c * 256 + d).toString(16)];
  const full = `${high.padStart(4, "0")}:${low.padStart(4, "0")}`.toUpperCase();
  return [
    ...[text, `${text}:5678`, `::ffff:${text}`, `::ffff:${high}:${low}`, `0:0:0:0:0:FFFF:${full}`],
    ...[`[::ffff:${text}]:443`, `::ffff:${high}:${low}%eth0`, `64:ff9b::${text}`],
  ];
}

function v6Notations(random: Random, groups: Numbers): string[] {
  const words = groups.map((group) => group.toString(16));
  const text = words.join(":");
  const full = words.map((word) => word.padStart(4, "0")).join(":");
  const [high = 0, low = 0] = groups.slice(6);
  const dotted = `${words.slice(0, 6).join(":")}:${[high >> 8, high & 255, low >> 8, low & 255].join(".")}`;
  return [
    ...[text, `${full}%1`, `${full.toUpperCase()}%ETH0`, dotted, `[${text}]`, `[${text}]:443`, `${text}%eth0`],
    `[${randomNotation(random, groups)}]:_x`,
  ];
}

function setting(name: string, otherwise: number): number {
  const value = Number(process.env[name] ?? otherwise);
  if (!Number.isSafeInteger(value) || value < 0)
    throw new Error(`${name} must be a whole number, not ${process.env[name]}`);
  return value;
}
