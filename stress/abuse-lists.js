/**
 * Lists of `sluice/abuse` with 100 000 entries: lookups of 10 000 addresses in 8 spellings against a slow oracle, speed,
 * memory, and reloads under concurrent lookups. SLUICE_SCALE multiplies the number of addresses.
 */
import { randomBytes } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTask } from "node:timers/promises";
import { setFlagsFromString, writeHeapSnapshot } from "node:v8";
import { runInNewContext } from "node:vm";
import ipaddr from "ipaddr.js";
import { ipList, keyList } from "../dist/abuse.js";
import { clientIp } from "../dist/http.js";
import { randomFrom, seedOf } from "./random.js";
import { stepsOf } from "./steps.js";

const RANGES = 100_000;
const ADDRESSES = Math.max(100, Math.round(stepsOf(10_000)));
const RELOADS = Math.max(2, Math.round(ADDRESSES / 2000));
const LOOKUPS = 2_000_000;
const GOAL_PER_SECOND = 1_000_000;
const GOAL_BYTES = 4 * 2 ** 20;
const GOAL_SLICE_MS = 20;
const LIST = Symbol.for("sluice.list");

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc");

/** @typedef {{ width: 32 | 128, value: bigint }} Bits */
/** @typedef {Bits & { prefix: number }} Cidr */
/** @typedef {ReturnType<typeof randomFrom>} Random */

export async function* abuseLists() {
  const seed = seedOf("SLUICE_SEED");
  const random = randomFrom(seed);
  yield keepsNoKeys();
  const ranges = Array.from({ length: RANGES }, () => randomRange(random));
  const except = Array.from({ length: 500 }, () => randomRange(random));
  const addresses = Array.from({ length: ADDRESSES }, () => randomAddress(random, ranges, except));
  yield spellings(ranges, except, addresses, seed);
  yield speedAndMemory("mixed ranges", ranges, addresses);
  const ipv6 = Array.from({ length: RANGES }, () => randomRange(random, 128));
  yield speedAndMemory("IPv6 ranges", ipv6, addresses.concat(ipv6.slice(0, ADDRESSES)));
  yield await reloads(random);
}

/** Compares lookups with the oracle, in every spelling. */
function spellings(
  /** @type {Cidr[]} */ ranges,
  /** @type {Cidr[]} */ except,
  /** @type {Bits[]} */ addresses,
  /** @type {number} */ seed,
) {
  const list = ipList(feedOf(ranges), { except: except.map(rangeText) });
  const [isListed, isExcepted] = [oracle(ranges), oracle(except)];
  const failures = [];
  let [lookups, listed] = [0, 0];
  for (const [i, address] of addresses.entries()) {
    const expected = isListed(address) && !isExcepted(address);
    if (expected) listed++;
    // Checks the oracle itself, which takes a second for 50 addresses.
    if (i < 50 && linear(ranges, address) !== isListed(address))
      failures.push(`the oracles differ: ${textOf(address)}`);
    for (const spelling of spellingsOf(address)) {
      lookups++;
      if (has(list, parsed(spelling)) !== expected) failures.push(`${spelling}: expected ${expected}, seed ${seed}`);
    }
  }
  return {
    claim: "lists against a slow oracle",
    details: `${RANGES} ranges, ${except.length} exceptions, ${addresses.length} addresses, ${listed} listed, ${lookups} lookups; seed ${seed}`,
    failures,
  };
}

function speedAndMemory(/** @type {string} */ what, /** @type {Cidr[]} */ ranges, /** @type {Bits[]} */ bits) {
  const text = feedOf(ranges);
  const clients = bits.map((one) => clientOf(parsed(textOf(one))));
  const before = bytesInUse();
  const start = performance.now();
  const list = ipList(text);
  const buildMs = performance.now() - start;
  const bytes = bytesInUse() - before;
  const runs = Array.from({ length: 3 }, () => {
    const start = performance.now();
    for (let i = 0; i < LOOKUPS; i++) list[LIST].has(clients[i % clients.length]);
    return (LOOKUPS / (performance.now() - start)) * 1000;
  });
  const perSecond = Math.max(...runs);
  const failures = [];
  if (perSecond < GOAL_PER_SECOND) failures.push(`${perSecond.toFixed(0)} lookups/s, goal ${GOAL_PER_SECOND}`);
  if (bytes > GOAL_BYTES) failures.push(`${bytes} bytes, goal ${GOAL_BYTES}`);
  return {
    claim: `speed and memory, ${what}`,
    details: `${ranges.length} ranges, ${text.length} characters: build ${buildMs.toFixed(0)} ms at once, ${(bytes / 2 ** 20).toFixed(2)} MiB, ${(perSecond / 1e6).toFixed(1)} M lookups/s`,
    failures,
  };
}

/** Reloads a list while other tasks look up addresses of the old and the new one. */
async function reloads(/** @type {Random} */ random) {
  /** Two feeds without a common range: in 10.0.0.0/7 or 2001::/16, with the same bit set or not set. */
  const feeds = [0n, 1n].map((bit) =>
    Array.from({ length: RANGES }, () => {
      const { width, value, prefix } = randomRange(random);
      const shift = BigInt(width - 16);
      const host = value & ((1n << shift) - 1n);
      const net = width === 32 ? 0x0a00n | (bit << 8n) | (value >> 120n) : 0x2000n | bit;
      return /** @type {Cidr} */ ({ width, value: (net << shift) | host, prefix: Math.max(prefix, 16) });
    }),
  );
  const texts = feeds.map(feedOf);
  const probes = feeds.map((feed) => [...feed.slice(0, 10), ...feed.slice(-10)].map((range) => parsed(textOf(range))));
  let loads = 0;
  const list = ipList(async () => texts[loads++ % 2], { refresh: "1s" });
  const failures = [];
  await list[LIST].has(clientOf(probes[0][0]));
  const slices = [];
  const buildMs = [];
  let rounds = 0;
  for (let reload = 1; reload <= RELOADS && failures.length === 0; reload++) {
    const [before, after] = [probes[(reload - 1) % 2], probes[reload % 2]];
    const isListed = (/** @type {any} */ address) => list[LIST].has(clientOf(address)) === true;
    let [slice, startedAt, lastCpu, last] = [{ cpuMs: 0, ms: 0 }, Number.NaN, cpuMs(), performance.now()];
    for (;;) {
      await nextTask();
      const now = performance.now();
      const cpu = cpuMs() - lastCpu;
      // Until a load has started, the loop only waits for it.
      if (loads > reload && Number.isNaN(startedAt)) startedAt = now;
      else if (loads > reload) slice = { cpuMs: Math.max(slice.cpuMs, cpu), ms: Math.max(slice.ms, now - last) };
      const found = [before, after].map((addresses) => addresses.filter(isListed).length);
      rounds++;
      [lastCpu, last] = [cpuMs(), performance.now()];
      if (found[0] === before.length && found[1] === 0) continue;
      if (found[0] !== 0 || found[1] !== after.length) failures.push(`reload ${reload}: ${found} of ${before.length}`);
      buildMs.push(now - startedAt);
      slices.push(slice);
      break;
    }
  }
  // The median, because garbage collection of other data counts as well.
  const [cpu, ms] = [median(slices.map((slice) => slice.cpuMs)), median(slices.map((slice) => slice.ms))];
  if (cpu > GOAL_SLICE_MS)
    failures.push(`the longest slice took ${cpu.toFixed(1)} ms of CPU time, goal ${GOAL_SLICE_MS}`);
  return {
    claim: "reloads under concurrent lookups",
    details: `${slices.length} reloads of ${RANGES} ranges, ${rounds} rounds of 40 lookups, no half list; median of builds ${median(buildMs).toFixed(0)} ms in slices, of the longest slice ${cpu.toFixed(1)} ms of CPU time, ${ms.toFixed(1)} ms of time`,
    failures,
  };
}

/** CPU time of the process in ms. Other processes on the machine don't count. */
function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function median(/** @type {number[]} */ numbers) {
  return numbers.sort((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;
}

/** Searches a heap snapshot for the keys of a list. */
function keepsNoKeys() {
  const needle = randomBytes(16).toString("hex");
  const keysOf = () => Array.from({ length: 1000 }, (_, i) => `user:${needle}-${i}`);
  // In a function of its own: the frame of this one would retain the arrays.
  const list = (() => keyList(keysOf(), { except: [keysOf()[999]] }))();
  const is = (/** @type {number} */ i) => list[LIST].has({ key: () => keysOf()[i] });
  const failures = !is(999) && is(998) && is(0) ? [] : ["the list does not contain its keys"];
  // `RegExp.lastMatch` retains the last text that matched.
  /x/.test("x");
  const file = writeHeapSnapshot(join(tmpdir(), `sluice-${process.pid}.heapsnapshot`));
  const text = readFileSync(file, "latin1");
  rmSync(file);
  if (!text.includes(needle)) failures.push("the snapshot does not contain the random part, so it proves nothing");
  if (text.includes(`user:${needle}`)) failures.push("the heap contains keys of the list");
  const start = performance.now();
  keyList(Array.from({ length: RANGES }, (_, i) => `user:${i}`));
  const buildMs = performance.now() - start;
  return {
    claim: "a list of keys keeps no keys",
    details: `1000 keys, none in a heap snapshot of ${(text.length / 2 ** 20).toFixed(0)} MiB; ${RANGES} keys: build ${buildMs.toFixed(0)} ms at once`,
    failures,
  };
}

/** The address as `identity` finds it. Parsed by another copy of ipaddr.js, as in an application with two builds. */
function parsed(/** @type {string} */ spelling) {
  const text = clientIp({ peer: spelling, headers: {} });
  if (text === undefined) throw new Error(`${spelling} is not an address`);
  return ipaddr.parse(text);
}

function clientOf(/** @type {ipaddr.IPv4 | ipaddr.IPv6} */ address) {
  return { address: () => address, reports: { listStale: (_list, error) => console.log(`stale: ${error.message}`) } };
}

function has(/** @type {any} */ list, /** @type {ipaddr.IPv4 | ipaddr.IPv6} */ address) {
  return list[LIST].has(clientOf(address));
}

function bytesInUse() {
  collectGarbage();
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** The oracle: looks up each prefix length of an address in a set of its own. */
function oracle(/** @type {Cidr[]} */ ranges) {
  const prefixes = new Set(ranges.map(({ width, value, prefix }) => prefixId(width, value, prefix)));
  return (/** @type {Bits} */ { width, value }) => {
    for (let prefix = 1; prefix <= width; prefix++) if (prefixes.has(prefixId(width, value, prefix))) return true;
    return false;
  };
}

const prefixId = (/** @type {number} */ width, /** @type {bigint} */ value, /** @type {number} */ prefix) =>
  `${width}/${prefix}/${(value >> BigInt(width - prefix)).toString(36)}`;

/** The oracle's own oracle: compares one range after the other. */
function linear(/** @type {Cidr[]} */ ranges, /** @type {Bits} */ { width, value }) {
  return ranges.some((range) => {
    const shift = BigInt(width - range.prefix);
    return range.width === width && range.value >> shift === value >> shift;
  });
}

function randomBits(/** @type {Random} */ random, /** @type {32 | 128} */ width) {
  let value = 0n;
  for (let i = 0; i < width; i += 16) value = (value << 16n) | BigInt(random.whole(0, 0xffff));
  // 2000::/4, so that no address embeds an IPv4 address.
  return width === 32 ? value : (value & ((1n << 124n) - 1n)) | (2n << 124n);
}

/** A range, mostly small ones as in feeds. */
function randomRange(/** @type {Random} */ random, width = /** @type {32 | 128} */ (random.pick([32, 128]))) {
  const [least, most] = width === 32 ? [14, 32] : [20, 128];
  const prefix = random.once(20) ? random.whole(least, most) : random.whole(width === 32 ? 24 : 48, most);
  return /** @type {Cidr} */ ({ width, value: randomBits(random, width), prefix });
}

/** An address at either end of a range, next to it, in it, or anywhere. */
function randomAddress(/** @type {Random} */ random, /** @type {Cidr[]} */ ranges, /** @type {Cidr[]} */ except) {
  const { width, value, prefix } = random.pick(random.once(10) ? except : ranges);
  if (random.once(4)) return { width, value: randomBits(random, width) };
  const size = 1n << BigInt(width - prefix);
  const first = (value / size) * size;
  const offsets = [-1n, 0n, size - 1n, size, randomBits(random, width) % size];
  const last = (1n << BigInt(width)) - 1n;
  return /** @type {Bits} */ ({ width, value: (first + random.pick(offsets)) & last });
}

const rangeText = (/** @type {Cidr} */ range) => `${textOf(range)}/${range.prefix}`;

const feedOf = (/** @type {Cidr[]} */ ranges) => ranges.map(rangeText).join("\n");

/** Dotted decimal, or eight groups without leading zeros. */
function textOf(/** @type {Bits} */ { width, value }) {
  const size = width === 32 ? 8 : 16;
  const parts = Array.from(
    { length: width / size },
    (_, i) => (value >> BigInt(width - size * (i + 1))) & ((1n << BigInt(size)) - 1n),
  );
  return width === 32 ? parts.join(".") : parts.map((part) => part.toString(16)).join(":");
}

/** Eight spellings of an address. */
function spellingsOf(/** @type {Bits} */ address) {
  const text = textOf(address);
  const hex = address.value.toString(16).padStart(address.width / 4, "0");
  if (address.width === 32) {
    const groups = `${hex.slice(0, 4)}:${hex.slice(4)}`;
    return [
      ...[text, `${text}:65535`, `::ffff:${text}`, `::FFFF:${groups.toUpperCase()}`],
      ...[`[0:0:0:0:0:ffff:${groups}]:443`, `64:ff9b::${text}`, `64:ff9b:0:0:0:0:${groups}`, ` ${text}\t`],
    ];
  }
  const padded = hex.match(/.{4}/g)?.join(":") ?? "";
  const dotted = textOf({ width: 32, value: address.value & 0xffffffffn });
  const short = new URL(`http://[${text}]/`).hostname;
  return [
    ...[text, padded, padded.toUpperCase(), short.slice(1, -1)],
    ...[short, `[${padded}]:443`, `${text}%eth0`, `${text.split(":").slice(0, 6).join(":")}:${dotted}`],
  ];
}
