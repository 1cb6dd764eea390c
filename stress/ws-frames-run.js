/** One run of `ws-frames.js`: clients send frames through one guard, and every outcome is checked. */
import { findExcess } from "../dist/testing.js";
import { createGuard, errorEnvelope } from "../dist/ws.js";
import { clock, pass } from "./fake-time.js";
import { RunWithCallbacks } from "./ws-frames-callbacks.js";
import { InjectedError, tick } from "./ws-frames-stores.js";

export const MAX_BYTES = 2048;
const CONNECTIONS = 40;
const NOTICES_PER_SECOND = 8;
const CONNECTION_POLICIES = {
  token: { algorithm: "token-bucket", capacity: 30, tokensPerSecond: 50 },
  leaky: { algorithm: "leaky-bucket", capacity: 12, leaksPerSecond: 40 },
  window: { algorithm: "fixed-window", limit: 25, windowMs: 700 },
  log: { algorithm: "sliding-log", limit: 20, windowMs: 900 },
};
const HEARTBEAT = { capacity: 5, tokensPerSecond: 3 };

/** One guard and its clients. */
export class Run extends RunWithCallbacks {
  constructor(name, { stores, own, waits = false, ...settings }, seed, pool) {
    super(name, seed);
    this.pool = pool;
    this.settings = settings;
    this.waits = waits;
    this.own = own && CONNECTION_POLICIES[own];
    this.maxBytes = settings.maxBytes ?? MAX_BYTES;
    Object.assign(this.counts, {
      offered: 0,
      received: 0,
      handled: 0,
      denied: 0,
      invalid: 0,
      uncharged: 0,
      dropped: 0,
    });
    Object.assign(this.counts, { late: 0, pings: 0, notices: 0, connections: 0 });
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
  }

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
