/**
 * Sends a million frames, valid and hostile, through guards of every kind. Callbacks, sockets and stores fail at random.
 * Clock and timers are fake: a seed reproduces a whole run.
 */
import { jsonRpcError, jsonType } from "../dist/ws.js";
import { scaled } from "../scripts/scale.js";
import { fakeTimers } from "./fake-time.js";
import { randomFrom, seedOf } from "./random.js";
import { entryOf, framePool, HEARTBEAT_TYPE, TYPES } from "./ws-frame-pool.js";
import { MAX_BYTES, Run } from "./ws-frames-run.js";

const FRAMES = scaled(1_000_000);
const MIB = 1_048_576;
const knownTypes = { typeOf: jsonType(), types: TYPES, heartbeats: [HEARTBEAT_TYPE] };
const anyType = { typeOf: jsonType(), types: "any", heartbeats: [HEARTBEAT_TYPE] };

/**
 * The guards and their options. `stores` has the kind of each store. `waits` is whether frames can wait: if not, each has
 * its outcome before `receive` returns.
 */
const GUARDS = {
  send: { stores: ["sync"], own: "token", ...knownTypes },
  close: { stores: ["sync"], own: "token", onExceeded: "close", ...knownTypes },
  ban: { stores: ["sync"], own: "token", onExceeded: "ban", closeCodes: { ban: 4000 }, ...knownTypes },
  custom: { stores: ["sync"], own: "log", onExceeded: "custom", closeAfter: 60, ...anyType },
  "a function": { stores: ["sync"], own: "window", onExceeded: "random", closeAfter: 80, ...knownTypes },
  "several limits": { stores: ["sync", "sync", "by type"], own: "token", closeAfter: 90, ...anyType },
  "no limits": { stores: [], own: "log", encode: jsonRpcError },
  "no limits, leaky": { stores: [], own: "leaky", waits: true, maxQueued: 8, ...knownTypes },
  "leaky store": {
    stores: ["leaky"],
    own: false,
    waits: true,
    maxQueued: 20,
    maxQueuedBytes: 8 * MAX_BYTES,
    ...knownTypes,
  },
  promises: { stores: ["promise"], own: "token", waits: true, ...knownTypes },
  "promises, close": {
    stores: ["promise"],
    own: false,
    waits: true,
    onExceeded: "close",
    closeAfter: 2,
    ...knownTypes,
  },
  "promises, several": { stores: ["async", "async"], own: "token", waits: true, maxQueued: 30, ...anyType },
  "promises, leaky": {
    stores: ["async leaky"],
    own: "leaky",
    waits: true,
    maxPending: 2,
    onExceeded: "random",
    ...knownTypes,
  },
  "1 MiB": { stores: ["sync"], own: "token", maxBytes: MIB, closeAfter: 100, ...knownTypes },
};

export async function* wsFrames() {
  const seed = seedOf("SLUICE_SEED");
  const restore = fakeTimers();
  const unhandled = [];
  const note = (/** @type {any} */ error) =>
    unhandled.push(`unhandled: ${error?.stack ?? error} (SLUICE_SEED=${seed})`);
  process.on("unhandledRejection", note);
  const start = process.hrtime.bigint();
  const before = prototypeOf();
  const names = Object.keys(GUARDS);
  const sums = {};
  try {
    const pool = framePool(randomFrom(seed), MAX_BYTES, 120);
    for (const [i, name] of names.entries()) {
      const large = name === "1 MiB";
      const share = large ? 2000 : Math.ceil((FRAMES - 2000) / (names.length - 1));
      const run = new Run(name, GUARDS[name], seed + i, large ? largePool(randomFrom(seed), pool) : pool);
      const { counts, failures } = await run.send(share);
      for (const [of, count] of Object.entries(counts)) sums[of] = (sums[of] ?? 0) + count;
      const { received, handled, denied, invalid, uncharged, dropped } = counts;
      const details = `${received} frames = ${handled} handled + ${denied} denied + ${invalid} invalid + ${uncharged} uncharged + ${dropped} dropped; ${counts.notices} notices, ${counts.connections} connections`;
      yield { claim: `frames: ${name}`, details, failures: failures.map((text) => `${text} (SLUICE_SEED=${seed})`) };
    }
  } finally {
    restore();
    process.off("unhandledRejection", note);
  }
  const seconds = Number((process.hrtime.bigint() - start) / 1_000_000_000n);
  const failures = prototypeOf() === before ? [] : [`Object.prototype was changed: ${prototypeOf()}`];
  failures.push(...unhandled);
  if (sums.offered < FRAMES) failures.push(`only ${sums.offered} frames`);
  yield {
    claim: "frames: all",
    details: `${sums.offered} frames, ${sums.late} after the close and ${sums.pings} pings, ${sums.injected} injected errors, ${unhandled.length} unhandled rejections; seed ${seed}, ${seconds} s`,
    failures,
  };
}

/** Frames of about 1 MiB: few different ones, sent often. */
function largePool(random, pool) {
  const large = framePool(random, MIB, 1).filter(({ bytes }) => bytes > MIB / 2);
  large.push(entryOf(`{"type":"chat","a":${"[".repeat(MIB / 4)}${"]".repeat(MIB / 4)}}`), entryOf("[".repeat(MIB)));
  const small = pool.filter(({ bytes }) => bytes < 100);
  return [...large, ...Array.from({ length: 2 * large.length }, () => random.pick(small))];
}

/** A fingerprint of `Object.prototype`, to detect prototype pollution. */
function prototypeOf() {
  const all = Object.getOwnPropertyDescriptors(Object.prototype);
  return JSON.stringify(Object.entries(all).map(([name, { value }]) => [name, typeof value, String(value)]));
}
