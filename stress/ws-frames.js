/**
 * Sends a million frames, valid and hostile, through guards of every kind. Callbacks, sockets and stores fail at random.
 * Clock and timers are fake: a seed reproduces a whole run.
 */
import { createLimiter, leakyBucket, memoryStore, tokenBucket } from "../dist/index.js";
import { findExcess } from "../dist/testing.js";
import { createGuard, errorEnvelope, jsonRpcError, jsonType, perUserKey } from "../dist/ws.js";
import { clock, fakeTimers, pass } from "./fake-time.js";
import { randomFrom, seedOf } from "./random.js";
import { entryOf, framePool, HEARTBEAT_TYPE, TYPES } from "./ws-frame-pool.js";

const FRAMES = Number(process.env.SLUICE_FRAMES ?? 1_000_000);
const MAX_BYTES = 2048;
const MIB = 1_048_576;
const CONNECTIONS = 40;
const NOTICES_PER_SECOND = 8;
const INVALID = "!invalid";
/** Error codes of an invalid key, cost or limiter. */
const COST_ERRORS = ["invalid-cost", "invalid-key", "invalid-limiter"];
const CONNECTION_POLICIES = {
  token: { algorithm: "token-bucket", capacity: 30, tokensPerSecond: 50 },
  leaky: { algorithm: "leaky-bucket", capacity: 12, leaksPerSecond: 40 },
  window: { algorithm: "fixed-window", limit: 25, windowMs: 700 },
  log: { algorithm: "sliding-log", limit: 20, windowMs: 900 },
};
const HEARTBEAT = { capacity: 5, tokensPerSecond: 3 };
const knownTypes = { typeOf: jsonType(), types: TYPES, heartbeats: [HEARTBEAT_TYPE] };
const anyType = { typeOf: jsonType(), types: "any", heartbeats: [HEARTBEAT_TYPE] };

class InjectedError extends Error {}
class InjectedCostError extends InjectedError {}

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
      const figures = `${received} frames = ${handled} handled + ${denied} denied + ${invalid} invalid + ${uncharged} uncharged + ${dropped} dropped; ${counts.notices} notices, ${counts.connections} connections`;
      yield { claim: `frames: ${name}`, figures, failures: failures.map((text) => `${text} (SLUICE_SEED=${seed})`) };
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
    figures: `${sums.offered} frames, ${sums.late} after the close and ${sums.pings} pings, ${sums.injected} injected errors, ${unhandled.length} unhandled rejections; seed ${seed}, ${seconds} s`,
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

const tick = () => new Promise(setImmediate);

/** One guard and its clients. */
class Run {
  constructor(name, { stores, own, waits = false, ...settings }, seed, pool) {
    this.random = randomFrom(seed);
    this.pool = pool;
    this.settings = settings;
    this.waits = waits;
    this.own = own && CONNECTION_POLICIES[own];
    this.maxBytes = settings.maxBytes ?? MAX_BYTES;
    this.failures = [];
    this.counts = { offered: 0, received: 0, handled: 0, denied: 0, invalid: 0, uncharged: 0, dropped: 0 };
    Object.assign(this.counts, { late: 0, pings: 0, notices: 0, connections: 0, injected: 0 });
    /** Cost that stores granted, and the part of it that was handled, by bucket. */
    this.buckets = new Map();
    /** The charges of a frame, by its ingress. */
    this.charged = new WeakMap();
    this.open = new Map();
    this.clients = new Map();
    this.current = undefined;
    /** Pending promises of handlers. */
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
        this.injectError(50);
        return (settings.encode ?? errorEnvelope)(notice, frame);
      },
      onLimitExceeded: (info) => this.exceeded(info),
      onInvalid: (ingress) => this.invalid(ingress),
      onError: (error) => this.onError(error),
      clock,
    });
    this.name = name;
  }

  fail(text) {
    if (this.failures.length < 20) this.failures.push(`${this.name}: ${text}`);
  }

  /** Throws in one of so many calls, at random. */
  injectError(oneIn, Kind = InjectedError) {
    if (!this.random.once(oneIn)) return;
    this.counts.injected++;
    throw new Kind();
  }

  /** Throws or rejects in one of so many calls, at random. */
  failSometimes(oneIn) {
    this.injectError(oneIn);
    if (!this.random.once(oneIn)) return undefined;
    this.counts.injected++;
    return Promise.reject(new InjectedError());
  }

  // Stores and limiters

  limitOf(kind, i) {
    const { random } = this;
    const policy = kind.includes("leaky")
      ? leakyBucket({ capacity: 10, leaksPerSecond: 20, name: `l${i}` })
      : tokenBucket({ capacity: 20 + 15 * i, tokensPerSecond: 5 + 5 * i, name: `t${i}` });
    const inner = memoryStore({ clock });
    const isAsync = /async|promise/.test(kind);
    const store = isAsync ? this.asyncStore(inner) : this.recordingStore(inner);
    const made = createLimiter({ policy, store, onStoreError: i === 0 ? "throw" : "closed", deadlineMs: 20_000 });
    // A limiter of another library has only these methods.
    const { consume, getPolicy } = made;
    const bare = {
      consume: (key, cost) => this.later(() => consume.call(made, key, cost)),
      getPolicy: () => getPolicy.call(made),
    };
    const limiter = kind === "promise" ? bare : made;
    const byType = (ingress) => {
      this.injectError(400, InjectedCostError);
      if (random.once(400)) return /** @type {any} */ ("junk");
      return ingress.type === "chat" ? undefined : limiter;
    };
    const costs = new WeakMap();
    return {
      limiter: kind === "by type" ? byType : limiter,
      cost: (ingress) => {
        this.injectError(400, InjectedCostError);
        this.disconnectSometimes(800);
        const cost = random.once(200)
          ? random.pick([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, "1", null, undefined, 2 ** 40])
          : random.pick([0, 1, 1, 1, 1, 2, 3, 50]);
        costs.set(ingress, cost);
        return cost;
      },
      key: (ingress) => {
        this.injectError(400, InjectedCostError);
        this.disconnectSometimes(800);
        if (random.once(400)) return /** @type {any} */ (random.pick(["", null, undefined, 7, {}, Symbol("key")]));
        const key = i === 0 ? perUserKey(ingress) : `${perUserKey(ingress)}:${ingress.type}`;
        const all = this.charged.get(ingress) ?? [];
        all.push({ bucket: `${policy.name} ${key}`, cost: costs.get(ingress) });
        this.charged.set(ingress, all);
        return key;
      },
    };
  }

  /** Runs a function after a random delay, and fails at random. */
  async later(run) {
    const { random } = this;
    for (let turns = random.whole(0, 5); turns > 0; turns--) await undefined;
    while (random.once(3)) await tick();
    this.injectError(150);
    const result = await run();
    while (random.once(3)) await tick();
    this.injectError(150);
    return result;
  }

  /** A store that records what it grants. */
  recordingStore(inner) {
    return {
      consistency: inner.consistency,
      open: (policy) => {
        const buckets = inner.open(policy);
        return {
          take: (key, cost) => {
            this.injectError(1000);
            return this.record([buckets.take(key, cost)], [{ policy, key, cost }])[0];
          },
        };
      },
      applySync: (group) => {
        this.injectError(1000);
        return this.record(inner.applySync(group), group);
      },
      apply: async (groups) => groups.map((group) => this.record(inner.applySync(group), group)),
      reset: (policy, key) => inner.reset(policy, key),
      inspect: (policy, key) => inner.inspect(policy, key),
      dispose: () => inner.dispose(),
    };
  }

  /** The same store, asynchronous. */
  asyncStore(inner) {
    const { consistency, apply, reset, inspect, dispose } = this.recordingStore(inner);
    return { consistency, apply: (groups) => this.later(() => apply(groups)), reset, inspect, dispose };
  }

  /** Records a grant, and checks that the policy allows it over every interval. Uses whole numbers only. */
  record(decisions, group) {
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

  // Callbacks of the guard

  typeOf(frame) {
    this.injectError(500);
    this.disconnectSometimes(1000);
    return this.settings.typeOf(frame);
  }

  validate(_frame, { id, type }) {
    if (type === INVALID) this.fail("validate was called with an invalid frame");
    this.injectError(60);
    const client = this.clients.get(id);
    if (this.random.once(500)) {
      this.disconnect(client, 1);
      return true;
    }
    return this.random.pick([true, true, undefined, 0, true, true, !this.random.once(10)]);
  }

  action({ id, retryAfterMs }) {
    this.injectError(60);
    if (this.random.once(200)) this.disconnect(this.clients.get(id), 0);
    if (this.random.once(60)) return /** @type {any} */ (this.random.pick(["nothing", undefined, {}, 1]));
    return retryAfterMs === null
      ? "send"
      : this.random.pick(["send", "custom", "send", "custom", this.random.once(20) ? "close" : "send"]);
  }

  exceeded({ id, type, action }) {
    const client = this.clients.get(id);
    if (!client) return this.fail(`onLimitExceeded for the unknown connection ${id}`);
    // Except for the current frame, if `onExceeded` has closed the connection.
    if (client.connection.closed && !client.disconnected) this.fail("onLimitExceeded after the close");
    if (type === "payload" && client.currentFrame && client.currentFrame.bytes <= this.maxBytes && !this.waits)
      this.fail(`${client.currentFrame.bytes} bytes were too many`);
    client.denied++;
    if (action === "close" || action === "ban") client.closes++;
    if (this.random.once(500)) this.disconnect(client, 0);
    return this.failSometimes(80);
  }

  invalid({ id }) {
    const client = this.clients.get(id);
    if (client.connection.closed) this.fail("found invalid after the close");
    client.invalid++;
    if (this.random.once(500)) this.disconnect(client, 0);
    return this.failSometimes(80);
  }

  onError(error) {
    if (error instanceof InjectedCostError || COST_ERRORS.includes(error?.code)) {
      if (!this.current.connection.closed) this.current.uncharged++;
      if (this.random.once(100)) this.disconnect(this.current, 0);
    } else if (
      !(error instanceof InjectedError) &&
      error?.code !== "invalid-option" &&
      error?.code !== "store-unavailable"
    )
      this.fail(`onError got ${error?.code} ${error?.stack ?? error}`);
    return this.failSometimes(100);
  }

  handled(client, sequence, entry, frame, ingress) {
    const { connection } = client;
    if (connection.closed) this.fail("handled after the close");
    if (sequence <= client.last) this.fail(`frame ${sequence} of ${client.id} handled after ${client.last}`);
    if (frame !== entry.frame) this.fail("the handled frame is not the received one");
    if (entry.bytes > this.maxBytes) this.fail(`${entry.bytes} bytes were handled`);
    const expected = this.expectedType(entry);
    if (ingress.type !== expected) this.fail(`handled as ${ingress.type}, it is ${expected}`);
    client.last = sequence;
    client.handled++;
    const isHeartbeat = ingress.type === HEARTBEAT_TYPE;
    (isHeartbeat ? client.heartbeats : client.frames).push({ atMs: ingress.receivedAt, cost: 1 });
    for (const { bucket, cost } of this.charged.get(ingress) ?? []) {
      const own = this.bucket(bucket);
      own.handled += cost;
      if (own.handled > own.granted) this.fail(`${own.handled} handled of ${own.granted} granted to ${bucket}`);
    }
    if (this.random.once(300)) this.disconnect(client, 0);
    this.injectError(100);
    if (!this.random.once(4)) return undefined;
    return new Promise((resolve, reject) => this.handling.push({ resolve, reject }));
  }

  expectedType({ type }) {
    const { typeOf, types } = this.settings;
    if (!typeOf) return "";
    return type !== undefined && (types === "any" || types.includes(type) || type === HEARTBEAT_TYPE) ? type : INVALID;
  }

  // Clients

  connect() {
    const { random } = this;
    const id = `c${this.counts.connections++}`;
    const behaviour = random.pick(["normal", "normal", "normal", "throws", "rejects codes"]);
    const client = { id, denied: 0, invalid: 0, uncharged: 0, dropped: 0, handled: 0, received: 0, pingsDenied: 0 };
    Object.assign(client, {
      sequence: 0,
      last: 0,
      frames: [],
      heartbeats: [],
      sent: [],
      closes: 0,
      attempts: [],
      disconnected: false,
    });
    const peer = {
      id,
      ip: random.once(3) ? undefined : `10.0.0.${random.whole(1, 9)}`,
      data: random.once(3)
        ? undefined
        : { userId: random.pick(["ann", "bob", "a:b", "__proto__", 7]), tenantId: random.pick([undefined, "t"]) },
      send: (message) => {
        this.onNotice(client, message);
        if (behaviour === "throws") throw new InjectedError();
      },
      close: (code, reason) => {
        client.attempts.push(code);
        if (Buffer.byteLength(reason) > 123) this.fail(`a reason of ${Buffer.byteLength(reason)} bytes`);
        if (behaviour === "throws" || (behaviour === "rejects codes" && code < 3000)) throw new InjectedError();
      },
    };
    client.connection = this.guard.attach(peer);
    // Frames in the queue are dropped at the end, and only the queue has them. Uncharged ones were counted in onError.
    const endConnection = client.connection.end.bind(client.connection);
    client.connection.end = () => {
      for (const { state } of client.connection.queue.frames) if (state.type !== "uncharged") client.dropped++;
      endConnection();
    };
    client.behaviour = behaviour;
    this.open.set(id, client);
    this.clients.set(id, client);
  }

  onNotice(client, message) {
    const now = clock.now();
    if (typeof message !== "string") this.fail(`a notice that is a ${typeof message}`);
    if (client.connection.closed) this.fail("a notice after the close");
    client.sent.push(now);
    this.counts.notices++;
    const before = client.sent[client.sent.length - 1 - NOTICES_PER_SECOND];
    if (before !== undefined && now - before < 1000)
      this.fail(`${NOTICES_PER_SECOND + 1} notices in ${now - before} ms`);
  }

  /** Ends a connection. `droppedFrames` is 1 if its current frame then has no other outcome. */
  disconnect(client, droppedFrames) {
    if (client.connection.closed) return;
    client.connection.end();
    client.dropped += droppedFrames;
    client.disconnected = true;
  }

  disconnectSometimes(oneIn) {
    if (this.random.once(oneIn)) this.disconnect(this.current, 1);
  }

  outcomes({ handled, denied, invalid, uncharged, dropped, pingsDenied }) {
    return handled + denied - pingsDenied + invalid + uncharged + dropped;
  }

  receive(client, entry) {
    const { connection } = client;
    const wasOpen = !connection.closed;
    const before = this.outcomes(client);
    const sequence = ++client.sequence;
    if (wasOpen) this.counts.offered++;
    else this.counts.late++;
    this.current = client;
    client.currentFrame = entry;
    try {
      connection.receive(entry.frame, (frame, ingress) => this.handled(client, sequence, entry, frame, ingress));
    } catch (error) {
      this.fail(`receive threw ${error?.stack}`);
    }
    client.currentFrame = undefined;
    if (wasOpen) client.received++;
    const outcomes = this.outcomes(client) - before;
    if (!this.waits && outcomes !== Number(wasOpen)) this.fail(`${outcomes} outcomes of one frame of ${client.id}`);
    if (!wasOpen && outcomes > 0) this.fail("a frame had an outcome after the close");
  }

  ping(client) {
    const wasOpen = !client.connection.closed;
    const before = client.denied;
    this.counts.pings++;
    try {
      const isAllowed = client.connection.ping();
      if (isAllowed) client.heartbeats.push({ atMs: clock.now(), cost: 1 });
      else if (wasOpen) client.pingsDenied++;
      const reported = client.denied - before;
      if (reported !== Number(wasOpen && !isAllowed)) this.fail(`${reported} calls of onLimitExceeded for one ping`);
      if (isAllowed && !wasOpen) this.fail("a ping was allowed after the close");
    } catch (error) {
      this.fail(`ping threw ${error?.stack}`);
    }
  }

  /** Checks and adds up the outcomes of a client's frames. */
  end(client) {
    client.wasClosed = client.connection.closed;
    client.connection.end();
    this.open.delete(client.id);
    const { received, attempts, closes, behaviour, disconnected } = client;
    if (this.outcomes(client) !== received) this.fail(`${received} frames had ${this.outcomes(client)} outcomes`);
    for (const of of ["received", "handled", "invalid", "uncharged", "dropped"]) this.counts[of] += client[of];
    this.counts.denied += client.denied - client.pingsDenied;
    const rejectsCode = behaviour === "throws" || (behaviour === "rejects codes" && attempts[0] < 3000);
    const due = disconnected ? 0 : closes * (rejectsCode ? 2 : 1);
    if (closes > 1 || attempts.length !== due) this.fail(`closed ${closes} times with ${attempts}, not ${due}`);
    if (closes > 0 && !disconnected && !client.wasClosed) this.fail("the connection is open after its close");
    const own = this.own;
    if (own)
      this.within(
        client.frames,
        { limit: own.limit ?? own.capacity, tokensPerSecond: own.tokensPerSecond ?? own.leaksPerSecond, ...own },
        client,
      );
    this.within(client.heartbeats, { algorithm: "token-bucket", limit: HEARTBEAT.capacity, ...HEARTBEAT }, client);
  }

  within(log, policy, client) {
    log.sort((a, b) => a.atMs - b.atMs);
    const excess = findExcess(log, policy);
    if (excess) this.fail(`${client.id} had ${JSON.stringify(excess)}`);
  }

  /** Sends this many frames, and returns the run with its counts. */
  async send(frames) {
    const { random, open, pool } = this;
    while (this.counts.offered < frames) {
      while (open.size < CONNECTIONS) this.connect();
      const client = random.pick([...open.values()]);
      // Some clients keep sending after the close.
      for (let burst = random.whole(1, 40); burst > 0 && !(client.connection.closed && random.once(4)); burst--)
        this.receive(client, random.pick(pool));
      if (random.once(3)) for (let pings = random.whole(1, 12); pings > 0; pings--) this.ping(client);
      if (!random.once(3))
        pass(random.pick([1, 7, 20, 50, 333, random.once(10) ? 2500 : 1, random.once(300) ? 70_000 : 0]));
      if (random.once(client.connection.closed ? 1 : 60)) this.end(client);
      while (this.handling.length > 0 && random.once(2)) this.resolveOne();
      if (this.waits && random.once(2)) await tick();
    }
    await this.drain();
    for (const client of [...open.values()]) {
      const { queue } = client.connection;
      if (queue.length > 0) this.fail(`${queue.length} frames of ${client.id} were never dispatched`);
      this.end(client);
    }
    await this.drain();
    for (const client of this.clients.values()) {
      if (client.sequence > 0 && client.connection.queue.length > 0)
        this.fail("a frame is queued on a closed connection");
    }
    return this;
  }

  resolveOne() {
    const [{ resolve, reject }] = this.handling.splice(this.random.whole(0, this.handling.length - 1), 1);
    if (this.random.once(5)) reject(new InjectedError());
    else resolve(undefined);
  }

  /** Lets all pending promises and timers run. */
  async drain() {
    for (let i = 0; i < 100; i++) {
      while (this.handling.length > 0) this.resolveOne();
      for (let turns = 0; turns < 20; turns++) await tick();
      pass(1000);
    }
  }
}
