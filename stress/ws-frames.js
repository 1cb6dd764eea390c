/**
 * A million frames, good and hostile, through guards of every kind. All of an application's functions fail now and
 * then, and so do its sockets and stores. Time is a fake one, timers too, so that a seed brings back a whole run.
 */
import { createLimiter, leakyBucket, memoryStore, tokenBucket } from "../dist/index.js";
import { findExcess } from "../dist/testing.js";
import { createGuard, errorEnvelope, jsonRpcError, jsonType, perUserKey } from "../dist/ws.js";
import { clock, fakeTimers, pass } from "./fake-time.js";
import { randomFrom, seedOf } from "./random.js";
import { BEAT, entryOf, framePool, TYPES } from "./ws-frame-pool.js";

const FRAMES = Number(process.env.SLUICE_FRAMES ?? 1_000_000);
const MAX_BYTES = 2048;
const MIB = 1_048_576;
const AT_ONCE = 40;
const NOTICES_PER_SECOND = 8;
const INVALID = "!invalid";
/** What the guard says of a key or a cost that it can't use. */
const COST_FAULTS = ["invalid-cost", "invalid-key", "invalid-limiter"];
const OWN = {
  token: { algorithm: "token-bucket", capacity: 30, tokensPerSecond: 50 },
  leaky: { algorithm: "leaky-bucket", capacity: 12, leaksPerSecond: 40 },
  window: { algorithm: "fixed-window", limit: 25, windowMs: 700 },
  log: { algorithm: "sliding-log", limit: 20, windowMs: 900 },
};
const HEARTBEAT = { capacity: 5, tokensPerSecond: 3 };
const known = { typeOf: jsonType(), types: TYPES, heartbeats: [BEAT] };
const anyType = { typeOf: jsonType(), types: "any", heartbeats: [BEAT] };

class Fault extends Error {}
class CostFault extends Fault {}

/**
 * The guards: what makes each of them another one. `stores` says how a store answers, and `waits` whether a frame
 * can wait at all: where none can, each has its outcome before `receive` returns.
 */
const GUARDS = {
  send: { stores: ["sync"], own: "token", ...known },
  close: { stores: ["sync"], own: "token", onExceeded: "close", ...known },
  ban: { stores: ["sync"], own: "token", onExceeded: "ban", closeCodes: { ban: 4000 }, ...known },
  custom: { stores: ["sync"], own: "log", onExceeded: "custom", closeAfter: 60, ...anyType },
  "a function": { stores: ["sync"], own: "window", onExceeded: "random", closeAfter: 80, ...known },
  "several limits": { stores: ["sync", "sync", "by type"], own: "token", closeAfter: 90, ...anyType },
  "no limits": { stores: [], own: "log", encode: jsonRpcError },
  "no limits, leaky": { stores: [], own: "leaky", waits: true, maxQueued: 8, ...known },
  "leaky store": { stores: ["leaky"], own: false, waits: true, maxQueued: 20, maxQueuedBytes: 8 * MAX_BYTES, ...known },
  promises: { stores: ["promise"], own: "token", waits: true, ...known },
  "promises, close": { stores: ["promise"], own: false, waits: true, onExceeded: "close", closeAfter: 2, ...known },
  "promises, several": { stores: ["async", "async"], own: "token", waits: true, maxQueued: 30, ...anyType },
  "promises, leaky": {
    stores: ["async leaky"],
    own: "leaky",
    waits: true,
    maxPending: 2,
    onExceeded: "random",
    ...known,
  },
  "1 MiB": { stores: ["sync"], own: "token", maxBytes: MIB, closeAfter: 100, ...known },
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
      const { received, handled, denied, invalid, costless, dropped } = counts;
      const figures = `${received} frames = ${handled} handled + ${denied} denied + ${invalid} invalid + ${costless} without a cost + ${dropped} dropped; ${counts.notices} notices, ${counts.connections} connections`;
      yield { claim: `frames: ${name}`, figures, failures: failures.map((text) => `${text} (SLUICE_SEED=${seed})`) };
    }
  } finally {
    restore();
    process.off("unhandledRejection", note);
  }
  const seconds = Number((process.hrtime.bigint() - start) / 1_000_000_000n);
  const failures = prototypeOf() === before ? [] : [`Object.prototype is another: ${prototypeOf()}`];
  failures.push(...unhandled);
  if (sums.offered < FRAMES) failures.push(`only ${sums.offered} frames`);
  yield {
    claim: "frames: all",
    figures: `${sums.offered} frames, ${sums.late} after the close and ${sums.pings} pings, ${sums.faults} faults of the application, ${unhandled.length} unhandled rejections; seed ${seed}, ${seconds} s`,
    failures,
  };
}

/** Frames of a mebibyte, few of them made and all of them sent often. */
function largePool(random, pool) {
  const large = framePool(random, MIB, 1).filter(({ bytes }) => bytes > MIB / 2);
  large.push(entryOf(`{"type":"chat","a":${"[".repeat(MIB / 4)}${"]".repeat(MIB / 4)}}`), entryOf("[".repeat(MIB)));
  const small = pool.filter(({ bytes }) => bytes < 100);
  return [...large, ...Array.from({ length: 2 * large.length }, () => random.pick(small))];
}

/** What everybody inherits, with what it is. */
function prototypeOf() {
  const all = Object.getOwnPropertyDescriptors(Object.prototype);
  return JSON.stringify(Object.entries(all).map(([name, { value }]) => [name, typeof value, String(value)]));
}

const tick = () => new Promise(setImmediate);

/** One guard, and everybody who is connected to it. */
class Run {
  constructor(name, { stores, own, waits = false, ...settings }, seed, pool) {
    this.random = randomFrom(seed);
    this.pool = pool;
    this.settings = settings;
    this.waits = waits;
    this.own = own && OWN[own];
    this.maxBytes = settings.maxBytes ?? MAX_BYTES;
    this.failures = [];
    this.counts = { offered: 0, received: 0, handled: 0, denied: 0, invalid: 0, costless: 0, dropped: 0 };
    Object.assign(this.counts, { late: 0, pings: 0, notices: 0, connections: 0, faults: 0 });
    /** What stores granted, and what of it was handled, by bucket. */
    this.buckets = new Map();
    /** What a frame was charged, by what the guard knows of it. */
    this.charged = new WeakMap();
    this.open = new Map();
    this.everybody = new Map();
    this.current = undefined;
    /** Promises of handlers that are not settled yet. */
    this.handling = [];
    this.limited = stores.length > 0;
    const limits = stores.map((kind, i) => this.limitOf(kind, i));
    const { onExceeded } = settings;
    this.guard = createGuard({
      maxBytes: MAX_BYTES,
      heartbeat: HEARTBEAT,
      ...settings,
      ...(onExceeded === "random" ? { onExceeded: (info) => this.action(info) } : {}),
      ...(settings.typeOf ? { typeOf: (frame) => this.typeOf(frame) } : {}),
      limits: limits.length === 1 ? limits[0] : limits,
      connection: this.own,
      validate: (frame, ingress) => this.validate(frame, ingress),
      encode: (notice, frame) => {
        this.fault(50);
        return (settings.encode ?? errorEnvelope)(notice, frame);
      },
      onLimitExceeded: (info) => this.exceeded(info),
      onInvalid: (ingress) => this.invalid(ingress),
      onError: (error) => this.erred(error),
      clock,
    });
    this.name = name;
  }

  fail(text) {
    if (this.failures.length < 20) this.failures.push(`${this.name}: ${text}`);
  }

  /** Throws now and then, as functions of applications do. */
  fault(inSoMany, Kind = Fault) {
    if (!this.random.once(inSoMany)) return;
    this.counts.faults++;
    throw new Kind();
  }

  /** Fails now and then, at once or later. */
  whim(inSoMany) {
    this.fault(inSoMany);
    if (!this.random.once(inSoMany)) return undefined;
    this.counts.faults++;
    return Promise.reject(new Fault());
  }

  // Stores and limiters

  limitOf(kind, i) {
    const { random } = this;
    const policy = kind.includes("leaky")
      ? leakyBucket({ capacity: 10, leaksPerSecond: 20, name: `l${i}` })
      : tokenBucket({ capacity: 20 + 15 * i, tokensPerSecond: 5 + 5 * i, name: `t${i}` });
    const inner = memoryStore({ clock });
    const inTime = /async|promise/.test(kind);
    const store = inTime ? this.laterStore(inner) : this.bookedStore(inner);
    const made = createLimiter({ policy, store, onStoreError: i === 0 ? "throw" : "closed", deadlineMs: 20_000 });
    // Others may have limiters of their own, of which only this much is known.
    const { consume, getPolicy } = made;
    const bare = {
      consume: (key, cost) => this.later(() => consume.call(made, key, cost)),
      getPolicy: () => getPolicy.call(made),
    };
    const limiter = kind === "promise" ? bare : made;
    const byType = (ingress) => {
      this.fault(400, CostFault);
      if (random.once(400)) return /** @type {any} */ ("junk");
      return ingress.type === "chat" ? undefined : limiter;
    };
    const costs = new WeakMap();
    return {
      limiter: kind === "by type" ? byType : limiter,
      cost: (ingress) => {
        this.fault(400, CostFault);
        this.endInHand(800);
        const cost = random.once(200)
          ? random.pick([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, "1", null, undefined, 2 ** 40])
          : random.pick([0, 1, 1, 1, 1, 2, 3, 50]);
        costs.set(ingress, cost);
        return cost;
      },
      key: (ingress) => {
        this.fault(400, CostFault);
        this.endInHand(800);
        if (random.once(400)) return /** @type {any} */ (random.pick(["", null, undefined, 7, {}, Symbol("key")]));
        const key = i === 0 ? perUserKey(ingress) : `${perUserKey(ingress)}:${ingress.type}`;
        const all = this.charged.get(ingress) ?? [];
        all.push({ bucket: `${policy.name} ${key}`, cost: costs.get(ingress) });
        this.charged.set(ingress, all);
        return key;
      },
    };
  }

  /** Something that is done sooner or later, in any order, and now and then fails. */
  async later(run) {
    const { random } = this;
    for (let turns = random.whole(0, 5); turns > 0; turns--) await undefined;
    while (random.once(3)) await tick();
    this.fault(150);
    const result = await run();
    while (random.once(3)) await tick();
    this.fault(150);
    return result;
  }

  /** A store that writes down what it grants. */
  bookedStore(inner) {
    return {
      consistency: inner.consistency,
      open: (policy) => {
        const buckets = inner.open(policy);
        return {
          take: (key, cost) => {
            this.fault(1000);
            return this.book([buckets.take(key, cost)], [{ policy, key, cost }])[0];
          },
        };
      },
      applySync: (group) => {
        this.fault(1000);
        return this.book(inner.applySync(group), group);
      },
      apply: async (groups) => groups.map((group) => this.book(inner.applySync(group), group)),
      reset: (policy, key) => inner.reset(policy, key),
      inspect: (policy, key) => inner.inspect(policy, key),
      dispose: () => inner.dispose(),
    };
  }

  /** The same behind promises. */
  laterStore(inner) {
    const { consistency, apply, reset, inspect, dispose } = this.bookedStore(inner);
    return { consistency, apply: (groups) => this.later(() => apply(groups)), reset, inspect, dispose };
  }

  /** Writes down a grant; never may more be granted than the policy allows, in whatever interval. Whole numbers only. */
  book(decisions, group) {
    if (!decisions.every(({ allowed }) => allowed)) return decisions;
    for (const { policy, key, cost, mode = "take" } of group) {
      if (mode === "peek") continue;
      const { name, limit, tokensPerSecond } = policy.resolved;
      const bucket = this.bucket(`${name} ${key}`);
      const now = clock.now();
      const spent = mode === "refund" ? -cost : cost;
      bucket.level = Math.max(0, Math.max(0, bucket.level - tokensPerSecond * (now - bucket.at)) + 1000 * spent);
      bucket.at = now;
      bucket.granted += spent;
      if (bucket.level > 1000 * limit) this.fail(`${bucket.level / 1000} of ${limit} granted to ${name} ${key}`);
    }
    return decisions;
  }

  bucket(name) {
    let bucket = this.buckets.get(name);
    if (!bucket) this.buckets.set(name, (bucket = { level: 0, at: clock.now(), granted: 0, handled: 0 }));
    return bucket;
  }

  // What the guard calls

  typeOf(frame) {
    this.fault(500);
    this.endInHand(1000);
    return this.settings.typeOf(frame);
  }

  validate(_frame, { id, type }) {
    if (type === INVALID) this.fail("validate was shown what can't be read");
    this.fault(60);
    const client = this.everybody.get(id);
    if (this.random.once(500)) {
      this.hangUp(client, 1);
      return true;
    }
    return this.random.pick([true, true, undefined, 0, true, true, !this.random.once(10)]);
  }

  action({ id, retryAfterMs }) {
    this.fault(60);
    if (this.random.once(200)) this.hangUp(this.everybody.get(id), 0);
    if (this.random.once(60)) return /** @type {any} */ (this.random.pick(["nothing", undefined, {}, 1]));
    return retryAfterMs === null
      ? "send"
      : this.random.pick(["send", "custom", "send", "custom", this.random.once(20) ? "close" : "send"]);
  }

  exceeded({ id, type, action }) {
    const client = this.everybody.get(id);
    if (!client) return this.fail(`a hook for ${id}, whom nobody knows`);
    // But for that of the frame in hand, when it was closed by what says what to do about it.
    if (client.connection.closed && !client.hungUp) this.fail("a hook after the close");
    if (type === "payload" && client.inHand && client.inHand.bytes <= this.maxBytes && !this.waits)
      this.fail(`${client.inHand.bytes} bytes were too many`);
    client.denied++;
    if (action === "close" || action === "ban") client.closes++;
    if (this.random.once(500)) this.hangUp(client, 0);
    return this.whim(80);
  }

  invalid({ id }) {
    const client = this.everybody.get(id);
    if (client.connection.closed) this.fail("found invalid after the close");
    client.invalid++;
    if (this.random.once(500)) this.hangUp(client, 0);
    return this.whim(80);
  }

  erred(error) {
    if (error instanceof CostFault || COST_FAULTS.includes(error?.code)) {
      if (!this.current.connection.closed) this.current.costless++;
      if (this.random.once(100)) this.hangUp(this.current, 0);
    } else if (!(error instanceof Fault) && error?.code !== "invalid-option" && error?.code !== "store-unavailable")
      this.fail(`onError heard ${error?.code} ${error?.stack ?? error}`);
    return this.whim(100);
  }

  handled(client, sequence, entry, frame, ingress) {
    const { connection } = client;
    if (connection.closed) this.fail("handled after the close");
    if (sequence <= client.last) this.fail(`frame ${sequence} of ${client.id} handled after ${client.last}`);
    if (frame !== entry.frame) this.fail("another frame was handled than had come");
    if (entry.bytes > this.maxBytes) this.fail(`${entry.bytes} bytes were handled`);
    const expected = this.expectedType(entry);
    if (ingress.type !== expected) this.fail(`handled as ${ingress.type}, it is ${expected}`);
    client.last = sequence;
    client.handled++;
    const isBeat = ingress.type === BEAT;
    (isBeat ? client.beats : client.frames).push({ atMs: ingress.receivedAt, cost: 1 });
    for (const { bucket, cost } of this.charged.get(ingress) ?? []) {
      const own = this.bucket(bucket);
      own.handled += cost;
      if (own.handled > own.granted) this.fail(`${own.handled} handled of ${own.granted} granted to ${bucket}`);
    }
    if (this.random.once(300)) this.hangUp(client, 0);
    this.fault(100);
    if (!this.random.once(4)) return undefined;
    return new Promise((resolve, reject) => this.handling.push({ resolve, reject }));
  }

  expectedType({ type }) {
    const { typeOf, types } = this.settings;
    if (!typeOf) return "";
    return type !== undefined && (types === "any" || types.includes(type) || type === BEAT) ? type : INVALID;
  }

  // Who is connected

  connect() {
    const { random } = this;
    const id = `c${this.counts.connections++}`;
    const temper = random.pick(["calm", "calm", "calm", "throws", "refuses codes"]);
    const client = { id, denied: 0, invalid: 0, costless: 0, dropped: 0, handled: 0, received: 0, pingsDenied: 0 };
    Object.assign(client, {
      sequence: 0,
      last: 0,
      frames: [],
      beats: [],
      sent: [],
      closes: 0,
      attempts: [],
      hungUp: false,
    });
    const peer = {
      id,
      ip: random.once(3) ? undefined : `10.0.0.${random.whole(1, 9)}`,
      data: random.once(3)
        ? undefined
        : { userId: random.pick(["ann", "bob", "a:b", "__proto__", 7]), tenantId: random.pick([undefined, "t"]) },
      send: (message) => {
        this.noticed(client, message);
        if (temper === "throws") throw new Fault();
      },
      close: (code, reason) => {
        client.attempts.push(code);
        if (Buffer.byteLength(reason) > 123) this.fail(`a reason of ${Buffer.byteLength(reason)} bytes`);
        if (temper === "throws" || (temper === "refuses codes" && code < 3000)) throw new Fault();
      },
    };
    client.connection = this.guard.attach(peer);
    // Frames that wait when it ends are dropped; only the line itself can tell them. Those without a cost were counted.
    const end = client.connection.end.bind(client.connection);
    client.connection.end = () => {
      for (const { obstacle } of client.connection.line.turns) if (!obstacle || obstacle.type) client.dropped++;
      end();
    };
    client.temper = temper;
    this.open.set(id, client);
    this.everybody.set(id, client);
  }

  noticed(client, message) {
    const now = clock.now();
    if (typeof message !== "string") this.fail(`a notice that is a ${typeof message}`);
    if (client.connection.closed) this.fail("told something after the close");
    client.sent.push(now);
    this.counts.notices++;
    const before = client.sent[client.sent.length - 1 - NOTICES_PER_SECOND];
    if (before !== undefined && now - before < 1000)
      this.fail(`${NOTICES_PER_SECOND + 1} notices in ${now - before} ms`);
  }

  /** The connection ends while its frame is in hand, which then has no other outcome. */
  hangUp(client, inHand) {
    if (client.connection.closed) return;
    client.connection.end();
    client.dropped += inHand;
    client.hungUp = true;
  }

  endInHand(inSoMany) {
    if (this.random.once(inSoMany)) this.hangUp(this.current, 1);
  }

  outcomes({ handled, denied, invalid, costless, dropped, pingsDenied }) {
    return handled + denied - pingsDenied + invalid + costless + dropped;
  }

  receive(client, entry) {
    const { connection } = client;
    const wasOpen = !connection.closed;
    const before = this.outcomes(client);
    const sequence = ++client.sequence;
    if (wasOpen) this.counts.offered++;
    else this.counts.late++;
    this.current = client;
    client.inHand = entry;
    try {
      connection.receive(entry.frame, (frame, ingress) => this.handled(client, sequence, entry, frame, ingress));
    } catch (error) {
      this.fail(`receive threw ${error?.stack}`);
    }
    client.inHand = undefined;
    if (wasOpen) client.received++;
    const outcomes = this.outcomes(client) - before;
    if (!this.waits && outcomes !== Number(wasOpen)) this.fail(`${outcomes} outcomes of one frame to ${client.id}`);
    if (!wasOpen && outcomes > 0) this.fail("a frame had an outcome after the close");
  }

  ping(client) {
    const wasOpen = !client.connection.closed;
    const before = client.denied;
    this.counts.pings++;
    try {
      const mayAnswer = client.connection.ping();
      if (mayAnswer) client.beats.push({ atMs: clock.now(), cost: 1 });
      else if (wasOpen) client.pingsDenied++;
      const hooks = client.denied - before;
      if (hooks !== Number(wasOpen && !mayAnswer)) this.fail(`${hooks} hooks for one ping`);
      if (mayAnswer && !wasOpen) this.fail("a ping may be answered after the close");
    } catch (error) {
      this.fail(`ping threw ${error?.stack}`);
    }
  }

  /** Adds up what became of somebody's frames. */
  leave(client) {
    client.wasClosed = client.connection.closed;
    client.connection.end();
    this.open.delete(client.id);
    const { received, attempts, closes, temper, hungUp } = client;
    if (this.outcomes(client) !== received) this.fail(`${received} frames had ${this.outcomes(client)} outcomes`);
    for (const of of ["received", "handled", "invalid", "costless", "dropped"]) this.counts[of] += client[of];
    this.counts.denied += client.denied - client.pingsDenied;
    const refused = temper === "throws" || (temper === "refuses codes" && attempts[0] < 3000);
    const due = hungUp ? 0 : closes * (refused ? 2 : 1);
    if (closes > 1 || attempts.length !== due) this.fail(`closed ${closes} times with ${attempts}, not ${due}`);
    if (closes > 0 && !hungUp && !client.wasClosed) this.fail("to be closed, and open");
    const own = this.own;
    if (own)
      this.within(
        client.frames,
        { limit: own.limit ?? own.capacity, tokensPerSecond: own.tokensPerSecond ?? own.leaksPerSecond, ...own },
        client,
      );
    this.within(client.beats, { algorithm: "token-bucket", limit: HEARTBEAT.capacity, ...HEARTBEAT }, client);
  }

  within(log, policy, client) {
    log.sort((a, b) => a.atMs - b.atMs);
    const excess = findExcess(log, policy);
    if (excess) this.fail(`${client.id} had ${JSON.stringify(excess)}`);
  }

  /** Sends so many frames, and tells what became of them. */
  async send(frames) {
    const { random, open, pool } = this;
    while (this.counts.offered < frames) {
      while (open.size < AT_ONCE) this.connect();
      const client = random.pick([...open.values()]);
      // Some send on after they were closed.
      for (let burst = random.whole(1, 40); burst > 0 && !(client.connection.closed && random.once(4)); burst--)
        this.receive(client, random.pick(pool));
      if (random.once(3)) for (let pings = random.whole(1, 12); pings > 0; pings--) this.ping(client);
      if (!random.once(3))
        pass(random.pick([1, 7, 20, 50, 333, random.once(10) ? 2500 : 1, random.once(300) ? 70_000 : 0]));
      if (random.once(client.connection.closed ? 1 : 60)) this.leave(client);
      while (this.handling.length > 0 && random.once(2)) this.settleOne();
      if (this.waits && random.once(2)) await tick();
    }
    await this.drain();
    for (const client of [...open.values()]) {
      const { line } = client.connection;
      if (line.length > 0) this.fail(`${line.length} frames of ${client.id} wait for ever`);
      this.leave(client);
    }
    await this.drain();
    for (const client of this.everybody.values()) {
      if (client.sequence > 0 && client.connection.line.length > 0) this.fail("a frame waits on a closed connection");
    }
    return this;
  }

  settleOne() {
    const [{ resolve, reject }] = this.handling.splice(this.random.whole(0, this.handling.length - 1), 1);
    if (this.random.once(5)) reject(new Fault());
    else resolve(undefined);
  }

  /** Time for everything that waits for something else than a client. */
  async drain() {
    for (let i = 0; i < 100; i++) {
      while (this.handling.length > 0) this.settleOne();
      for (let turns = 0; turns < 20; turns++) await tick();
      pass(1000);
    }
  }
}
